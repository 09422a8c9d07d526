// A network compiled for this backend.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/spare_buffers.h"
#include "engine/graph/inner_tile.h"

namespace upscaled::cpu {

// A deep network in stages, by kernels whose blocks reach so far that it is of use for whole images
// alone. Its weights are packed when it first runs. Thread safe.
class WholeImageProgram {
 public:
  // `planned`: of `source` without weights.
  WholeImageProgram(Network source, Isa isa, Program planned);

  // Without packed weights, to plan with.
  const Program& planned() const { return planned_; }
  // Throws std::bad_alloc when memory is out.
  const Program& Packed();
  // The packed weights, there yet or not, and those that they are made of, until then.
  size_t WeightBytes() const { return planned_.weight_bytes + source_bytes_; }

 private:
  Network source_;
  const Isa isa_;
  const Program planned_;
  std::atomic<size_t> source_bytes_ = 0;
  std::once_flag once_;
  std::optional<Program> packed_;
};

class CpuExecutable final : public Executable {
 public:
  // The scratch of a stream for the smallest tile that is ever preferred.
  static constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;

  // `forced_kernel` and `chooser` may be null; kFast needs HasVnni(isa). `always_stages`: see
  // BackendOptions. `spare_buffers`: where the memory of kept layers is from. UNIMPLEMENTED: see
  // BuildProgram. RESOURCE_EXHAUSTED: no memory for the packed weights, or they or the workspace
  // exceed their limits.
  static absl::StatusOr<std::shared_ptr<const Executable>> Create(
      const Network& network, Isa isa, const KernelEntry* forced_kernel, Precision precision,
      KernelChooser* chooser, bool always_stages = false,
      std::shared_ptr<SpareBuffers> spare_buffers = std::make_shared<SpareBuffers>());

  // The memory that Create would take, without weights packed or tile sizes measured.
  static absl::StatusOr<MemoryNeed> PlanMemory(const Network& network, Isa isa,
                                               const KernelEntry* forced_kernel,
                                               Precision precision, bool always_stages = false);

  const Network& network() const override { return network_; }
  Precision precision() const override { return program_.precision; }
  size_t WorkspaceBytes(Size tile) const override;
  size_t WeightBytes() const override;
  Size PreferredTile() const override { return preferred_tile_; }
  // By the image alone, never by the tile: a pixel's bytes depend on the kernels. Small images of
  // networks with a stage for each pass, too, which have no halo in one tile.
  bool ComputesWhole(Size image) const override;
  int MinSharePx() const override { return kMinSharePx; }
  std::unique_ptr<ActivationCache> CreateActivationCache() const override;
  size_t ActivationCacheBytes(Size tile, Size image) const override;

  // The program that runs tiles of any image, but for those that are computed whole.
  const Program& program() const { return program_; }
  // The program that runs tiles of such an image. Packs its weights where it is the first to ask:
  // throws std::bad_alloc when memory is out.
  const Program& ProgramFor(Size image) const;
  // Computes pixels that overflowed in precision kFast; null in precision kExact.
  const Program* exact_program() const { return exact_program_ ? &*exact_program_ : nullptr; }

 private:
  CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                std::unique_ptr<WholeImageProgram> whole_images, Size preferred_tile,
                std::shared_ptr<SpareBuffers> spare_buffers);
  TilePlan MakePlan(const Rect& tile, Size image) const override;
  // Whether images are ever computed whole.
  bool MayComputeWhole() const { return whole_images_ || program_.HasStageForEachPass(); }
  // The program that plans tiles of such an image.
  const Program& PlannedFor(Size image) const;
  // The workspace of tiles that program() runs, and of their pixels that overflowed; and the
  // scratch of the stream's helper.
  size_t TileWorkspaceBytes(const InnerTile& tile) const;
  // Whether one tile of all of the image, and what it keeps, is within limits.
  bool HasRoomForWhole(Size image) const;

  const Network network_;  // without weights
  const Program program_;
  const std::optional<Program> exact_program_;
  const std::unique_ptr<WholeImageProgram> whole_images_;  // may be null
  const Size preferred_tile_;
  const std::shared_ptr<SpareBuffers> spare_buffers_;
  // HasRoomForWhole by width and height, of images of late.
  mutable absl::Mutex mutex_;
  mutable std::map<std::pair<int, int>, bool> has_room_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::cpu
