// One CPU thread's work: tiles, one after the other.
#pragma once

#include <span>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

class CpuStream final : public Stream {
 public:
  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;
  // Profiles the layers of the program, see program.h; in kFast without what is computed again.
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& task) override;

 private:
  // Computes `runs` of RunTile's pixels again with this program.
  absl::Status RunExactly(const Program& program, const TileTask& task, std::span<const Rect> runs);
  // Adds them to the pass's sums.
  void AddExactly(const Program& program, const TileTask& task, std::span<const Rect> runs);

  HugeBuffer workspace_;
};

}  // namespace upscaled::cpu
