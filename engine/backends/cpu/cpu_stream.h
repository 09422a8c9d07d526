// One CPU thread's work: tiles, one after the other.
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/tile_plan.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

class CpuStream final : public Stream {
 public:
  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;

 private:
  void RunTile(const Program& program, const TileTask& task);

  HugeBuffer workspace_;
};

}  // namespace upscaled::cpu
