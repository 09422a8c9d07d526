// A network compiled for one device.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/cuda/batch_layout.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/program.h"
#include "engine/backends/cuda/step_kernel.h"
#include "engine/graph/inner_tile.h"
#include "engine/graph/kernel_choice.h"
#include "engine/graph/weight_budget.h"

namespace upscaled::cuda {

class CudaExecutable final : public Executable {
 public:
  // `forced` may be null; so may `chooser`, for the layers without a forced kernel. UNIMPLEMENTED:
  // see PlanNetwork.
  // RESOURCE_EXHAUSTED when the weights or the smallest tile take more than the device has.
  static absl::StatusOr<std::shared_ptr<const CudaExecutable>> Create(
      std::shared_ptr<Context> context, const Network& network, Precision precision,
      const ConvKernel* forced, KernelChooser* chooser = nullptr);

  const Network& network() const override { return program_.network; }
  Precision precision() const override { return precision_; }
  size_t WorkspaceBytes(Size tile) const override;
  size_t HostWorkspaceBytes(Size tile) const override;
  size_t WeightBytes() const override { return weights_.bytes(); }
  Size PreferredTile() const override { return preferred_tile_; }
  std::unique_ptr<ActivationCache> CreateActivationCache() const override;
  size_t ActivationCacheBytes(Size tile, Size image) const override;

  const std::shared_ptr<Context>& context() const { return context_; }
  const Program& program() const { return program_; }
  // As program().nodes. Precision kFast has those of kExact, too, for overflowed pixels.
  const std::vector<StepKernel>& kernels(Precision precision) const {
    return precision == precision_ ? kernels_ : exact_kernels_;
  }
  // RESOURCE_EXHAUSTED names a layer too large in the tile for the kernels' counts.
  absl::Status CheckPlan(const PlacedTile& plan) const;
  // Unique among all executables of the context, ever: a stream keeps things of one for no other.
  int64_t id() const { return id_; }
  // How much of a stream's memory a batch of several tiles may take.
  size_t batch_bytes() const { return batch_bytes_; }

 private:
  CudaExecutable(std::shared_ptr<Context> context, Precision precision)
      : context_(std::move(context)), precision_(precision), id_(context_->NextId()) {}
  // The program's nodes in `precision`, this executable's or kExact. Adds to weights_.
  absl::StatusOr<std::vector<StepKernel>> MakeKernels(const Network& network, Precision precision);
  TilePlan MakePlan(const Rect& tile, Size image) const override;
  size_t GatedBytes() const;
  absl::Status ChooseTile();
  // Bytes of the host's memory, without the staging of images.
  size_t RedoneBytes(Size tile) const;
  // The layout for one tile and samples of the largest type.
  BatchLayout LargestLayout(const InnerTile& tile) const;

  const std::shared_ptr<Context> context_;
  const Precision precision_;
  const int64_t id_;
  Program program_;
  std::vector<StepKernel> kernels_, exact_kernels_;
  WeightBudget weights_;
  Size preferred_tile_;
  size_t batch_bytes_ = 0;
};

}  // namespace upscaled::cuda
