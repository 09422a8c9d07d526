// One CPU thread's work: tiles, one after the other.
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

class CpuStream final : public Stream {
 public:
  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;

 private:
  HugeBuffer workspace_;
};

}  // namespace upscaled::cpu
