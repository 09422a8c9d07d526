// One CPU thread's work: tiles, one after the other, with the help of others that have none.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/team.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

class CpuStream final : public Stream {
 public:
  // `poisons`: see BackendOptions::poisons_memory.
  CpuStream(std::shared_ptr<HelperPool> helpers, bool poisons)
      : helpers_(std::move(helpers)), workspace_(poisons ? HugeBuffer::Poisoned() : HugeBuffer()) {}

  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;
  // Profiles the layers of the program, see program.h; in kFast without what is computed again.
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& task) override;
  absl::Duration HelpedTime() const override { return helped_; }

 private:
  absl::Status RunTask(const CpuExecutable& executable, const TileTask& task);
  absl::Status RunWhole(const CpuExecutable& executable, const TileTask& task, Team& team);
  // Runs the parts of a tile of which too many pixels left the range of halves.
  absl::Status RunInQuarters(const CpuExecutable& executable, const TileTask& task, Team& team);
  // Computes `runs` of a slice again, in tiles of the size that the executable prefers.
  absl::Status RunExactlyInTiles(const CpuExecutable& executable, const TileTask& task, Team& team,
                                 std::span<const Rect> runs);
  // Computes `runs` of RunTile's pixels again with this program.
  absl::Status RunExactly(const Program& program, const TileTask& task, Team& team,
                          std::span<const Rect> runs);
  // Adds them to the pass's sums.
  void AddExactly(const Program& program, const TileTask& task, Team& team,
                  std::span<const Rect> runs);

  const std::shared_ptr<HelperPool> helpers_;
  absl::Duration helped_;
  HugeBuffer workspace_;
};

}  // namespace upscaled::cpu
