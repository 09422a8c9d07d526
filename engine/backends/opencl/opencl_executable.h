// A network compiled for one device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/backends/opencl/layer_kernel.h"
#include "engine/backends/opencl/tile_tensors.h"
#include "engine/graph/inner_tile.h"

namespace upscaled::opencl {

class OpenClExecutable final : public Executable {
 public:
  // `forced` and `chooser` may be null. UNIMPLEMENTED: see PlanNetwork. RESOURCE_EXHAUSTED when the
  // weights or the smallest tile take more than the device has.
  static absl::StatusOr<std::shared_ptr<const OpenClExecutable>> Create(
      std::shared_ptr<Context> context, const Network& network, Precision precision,
      const KernelEntry* forced, KernelChooser* chooser);

  const Network& network() const override { return network_; }
  Precision precision() const override { return precision_; }
  size_t WorkspaceBytes(Size tile) const override;
  size_t HostWorkspaceBytes(Size tile) const override;
  size_t WeightBytes() const override { return weight_bytes_; }
  Size PreferredTile() const override { return preferred_tile_; }
  std::unique_ptr<ActivationCache> CreateActivationCache() const override;
  bool ComputesWhole(Size image) const override;
  size_t ActivationCacheBytes(Size tile, Size image) const override;

  // As network().layers; null for the input and for layers that the result does not need.
  const std::vector<std::unique_ptr<LayerKernel>>& kernels() const { return kernels_; }
  const std::vector<const KernelInfo*>& kernel_infos() const { return kernel_infos_; }
  const KernelFunction& zero() const { return zero_; }
  std::vector<Rect> TensorRectsOf(const TilePlan& plan) const {
    return TensorRects(network_, block_px_, plan);
  }
  // Bytes of a stream's slots for tensors of these rectangles; `slot_of` as network().layers.
  // RESOURCE_EXHAUSTED names a layer whose tensor is larger than the device's buffers may be.
  absl::StatusOr<std::vector<size_t>> SlotBytesOf(std::span<const Rect> rects) const;
  const std::vector<int>& slot_of() const { return slot_of_; }
  const std::vector<int>& poolings() const { return poolings_; }  // ListPoolings

 private:
  OpenClExecutable(std::shared_ptr<Context> context, Precision precision)
      : context_(std::move(context)), precision_(precision) {}
  absl::Status MakeKernels(const Network& network, const KernelEntry* forced,
                           KernelChooser* chooser);
  TilePlan MakePlan(const Rect& tile, Size image) const override;
  // Bytes of a tile's slots. RESOURCE_EXHAUSTED: see SlotBytesOf.
  absl::StatusOr<size_t> CheckedTensorBytes(const InnerTile& tile) const;
  size_t TensorBytes(const InnerTile& tile) const;
  // The limit of a tile's slots together.
  size_t MaxTensorBytes() const { return context_->device.memory_bytes / 4; }
  // Bytes of a tile's pixels in transit, in the largest samples.
  size_t TransferBytes(const InnerTile& tile) const;
  // With a tile chosen; `forced` and `chooser` as in Create.
  static absl::StatusOr<std::shared_ptr<const OpenClExecutable>> Build(
      std::shared_ptr<Context> context, const Network& network, Precision precision,
      const KernelEntry* forced, KernelChooser* chooser);
  absl::Status ChooseTile();

  const std::shared_ptr<Context> context_;
  const Precision precision_;
  Network network_;  // without weights
  // As network_.layers.
  std::vector<std::unique_ptr<LayerKernel>> kernels_;
  std::vector<const KernelInfo*> kernel_infos_;
  std::vector<int> block_px_;
  std::vector<int> slot_of_;
  std::vector<int> poolings_;
  KernelFunction zero_;
  size_t weight_bytes_ = 0;
  Size preferred_tile_;
  bool halo_counts_ = false;  // more than the tile, even of the smallest: images are best whole
};

}  // namespace upscaled::opencl
