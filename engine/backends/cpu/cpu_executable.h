// A network compiled for this backend.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/known_by_size.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/spare_buffers.h"
#include "engine/graph/inner_tile.h"

namespace upscaled::cpu {

class CpuExecutable final : public Executable {
 public:
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
  // Only by the image, never by the tile: a pixel's bytes depend on the kernels. Small images of
  // networks with a stage for each pass, too, which have no halo in one tile.
  bool ComputesWhole(Size image) const override;
  // Tiles of a deep network compute most of an image: they are of those that are computed whole.
  bool ComputesTiles(Size image) const override { return !rows_only_ || ComputesWhole(image); }
  int MinSharePx() const override { return kMinSharePx; }
  std::unique_ptr<ActivationCache> CreateActivationCache() const override;
  size_t ActivationCacheBytes(Size tile, Size image) const override;
  // There are streams of networks without global poolings.
  std::unique_ptr<RowStream> CreateRowStream(Size image) const override;
  std::optional<RowStreamNeed> PlanRowStream(Size image) const override;

  const Program& program() const { return program_; }
  // Computes pixels that overflowed in precision kFast; null in precision kExact.
  const Program* exact_program() const { return exact_program_ ? &*exact_program_ : nullptr; }

 private:
  CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                bool rows_only, Size preferred_tile, std::shared_ptr<SpareBuffers> spare_buffers);
  TilePlan MakePlan(const Rect& tile, Size image) const override;
  // Whether images are ever computed whole.
  bool MayComputeWhole() const { return rows_only_ || program_.HasStageForEachPass(); }
  // The workspace of tiles that program() runs, and of their pixels that overflowed, with their
  // runs and their exact result; and the scratch of the stream's helper.
  size_t TileWorkspaceBytes(const InnerTile& tile) const;
  // The runs of a tile or of rows this wide.
  size_t OverflowedBytes(int width_px) const;
  size_t WholeWorkspaceBytes(Size image) const;  // of an image in one tile
  // Whether one tile of all of the image, and what it keeps, is within limits: turned, too, as tta
  // has it, since rings grow with the width.
  bool HasRoomForWhole(Size image) const;

  const Network network_;  // without weights
  const Program program_;
  const std::optional<Program> exact_program_;
  const bool rows_only_;  // a tile of an image would compute most of it
  const Size preferred_tile_;
  const std::shared_ptr<SpareBuffers> spare_buffers_;
  KnownBySize<bool> has_room_;            // HasRoomForWhole
  KnownBySize<size_t> whole_workspaces_;  // TileWorkspaceBytes of images in one tile
  KnownBySize<size_t> cut_workspaces_;    // and of tiles anywhere in an image
  KnownBySize<RowStreamNeed> row_needs_;
};

}  // namespace upscaled::cpu
