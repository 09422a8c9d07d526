#include "engine/backends/cuda/cuda_executable.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_kernel_set.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/overflow.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_choice.h"

namespace upscaled::cuda {
namespace {

// Returns Program::block_px: each node's result is computed in its kernel's blocks; of the last
// node only the convolution is, as the result is computed as it is asked for.
std::vector<int> BlocksOf(const NetworkPlan& plan, const Network& network,
                          const DeviceLimits& limits) {
  std::vector<int> block_px(network.layers.size(), 1);
  for (const Node& node : plan.nodes) {
    const FusedLayers layers = FusedOf(network, node);
    const bool is_result = &node == &plan.nodes.back();
    if (KindOf(network, node) != NodeKind::kConv) continue;
    const auto& kernel = static_cast<const ConvKernel&>(*node.kernel.info);
    if (kernel.block_px == nullptr) continue;
    block_px[is_result ? node.main : node.layer()] =
        kernel.block_px({layers.main, layers.shuffle}, limits);
  }
  return block_px;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaExecutable>> CudaExecutable::Create(
    std::shared_ptr<Context> context, const Network& network, Precision precision,
    const ConvKernel* forced, KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  RETURN_IF_ERROR(context->Enter());
  std::shared_ptr<CudaExecutable> executable(new CudaExecutable(std::move(context), precision));
  const CudaKernelSet kernels(executable->context_, precision);
  ASSIGN_OR_RETURN(NetworkPlan plan, PlanNetwork(network, kernels, forced, chooser));
  std::vector<int> block_px = BlocksOf(plan, network, executable->context_->device().limits);
  executable->program_ = BuildProgram(std::move(plan), std::move(block_px));
  ASSIGN_OR_RETURN(executable->kernels_, executable->MakeKernels(network, precision));
  if (precision == Precision::kFast) {
    ASSIGN_OR_RETURN(executable->exact_kernels_,
                     executable->MakeKernels(network, Precision::kExact));
  }
  executable->program_.gated_bytes = executable->GatedBytes();
  RETURN_IF_ERROR(executable->ChooseTile());
  return executable;
}

absl::StatusOr<std::vector<StepKernel>> CudaExecutable::MakeKernels(const Network& network,
                                                                    Precision precision) {
  const CudaKernelSet set(context_, precision);
  std::vector<StepKernel> kernels;
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    const Node& node = program_.nodes[i];
    const KernelInfo* kernel = node.kernel.info;
    if (kernel != nullptr && precision != precision_) {
      ASSIGN_OR_RETURN(const KernelChoice exact,
                       ChooseKernel(set, FusedOf(network, node), nullptr, nullptr));
      kernel = exact.info;
    }
    ASSIGN_OR_RETURN(StepKernel made,
                     StepKernel::Create(context_, network, program_, i, precision, kernel));
    RETURN_IF_ERROR(weights_.Add(network.layers[node.main], made.WeightBytes()));
    kernels.push_back(std::move(made));
  }
  return kernels;
}

size_t CudaExecutable::GatedBytes() const {
  size_t bytes = 0;
  for (const auto* kernels : {&kernels_, &exact_kernels_}) {
    for (const StepKernel& kernel : *kernels) bytes = std::max(bytes, kernel.GatedBytes());
  }
  return bytes;
}

absl::Status CudaExecutable::CheckPlan(const PlacedTile& plan) const {
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const Placement& place = program_.placements[i];
    if (place.allocation < 0) continue;
    const int64_t pixels =
        plan.rects[place.allocation].Area() * program_.allocations[place.allocation].planes;
    if (pixels <= kMaxTilePixels) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("layer '", network().layers[i].name, "' of the tile has ", pixels,
                     " pixels in its planes, the limit of the cuda backend is ", kMaxTilePixels));
  }
  return absl::OkStatus();
}

TilePlan CudaExecutable::MakePlan(const Rect& tile, Size image) const {
  return PlanTile(program_, image, tile);
}

BatchLayout CudaExecutable::LargestLayout(const InnerTile& tile) const {
  const BatchShape shape{
      .src_type = SampleType::kF32, .src_channels = 4, .dst_type = SampleType::kF32};
  return LayOut(program_, PlaceTile(program_, Plan(tile.rect, tile.image)), precision_, shape);
}

size_t CudaExecutable::WorkspaceBytes(Size tile) const {
  const BatchLayout layout = LargestLayout(AnywhereTile(tile));
  return layout.bytes + layout.staging_bytes();
}

size_t CudaExecutable::HostWorkspaceBytes(Size tile) const {
  if (context_->device().shares_host_memory) return WorkspaceBytes(tile) + RedoneBytes(tile);
  // A batch of small tiles may take as much as a preferred one.
  const auto staging = [this](Size of) { return LargestLayout(AnywhereTile(of)).staging_bytes(); };
  return std::max(staging(tile), staging(PreferredTile())) + RedoneBytes(tile);
}

// The memory of CudaStream::RunExactly: a result of floats, and of a quarter another one and its
// overflowed runs.
size_t CudaExecutable::RedoneBytes(Size tile) const {
  if (precision_ == Precision::kExact) return 0;
  const int scale = program_.network.scale;
  const size_t pixel_bytes = 3 * SampleBytes(SampleType::kF32);
  const Size whole{tile.width * scale, tile.height * scale};
  const Size quarter{CeilDiv(tile.width, 2) * scale, CeilDiv(tile.height, 2) * scale};
  return static_cast<size_t>(whole.Area() + quarter.Area()) * pixel_bytes +
         MaxOverflowedBytes(quarter);
}

std::unique_ptr<ActivationCache> CudaExecutable::CreateActivationCache() const {
  return program_.poolings.empty() ? nullptr : std::make_unique<CachedTile>(this, context_);
}

size_t CudaExecutable::ActivationCacheBytes(Size tile, Size image) const {
  constexpr int64_t kMinPixels = 256 * 256;  // smaller ones gain more from batches and graphs
  if (program_.poolings.empty() || tile.Area() < kMinPixels) return 0;
  return LargestLayout(AnywhereTile(tile, image)).tensor_bytes();
}

// The better a device is filled, too.
absl::Status CudaExecutable::ChooseTile() {
  static constexpr Size kLargestFirst[] = {
      {1920, 1080}, {1024, 1024}, {768, 768}, {512, 512}, {256, 256}};
  const size_t memory_bytes = context_->device().memory_bytes;
  const TileLimits limits{.largest_first = kLargestFirst,
                          .smallest = {128, 128},
                          .max_macs = 100e12,  // some tenths of a second of a large device
                          .good_bytes = std::min(memory_bytes / 16, size_t{4} << 30),
                          .max_bytes = memory_bytes / 8,
                          .memory_name = absl::StrCat(context_->device().name, "'s memory")};
  const auto macs = [&](Size size) {
    const InnerTile tile(size);
    return TileMacs(program_.network, Plan(tile.rect, tile.image).regions);
  };
  const auto bytes = [&](Size size) -> absl::StatusOr<size_t> {
    return LargestLayout(InnerTile(size)).bytes;
  };
  ASSIGN_OR_RETURN(preferred_tile_, ChooseLargestTile(limits, {macs, bytes}));
  batch_bytes_ = LargestLayout(InnerTile(preferred_tile_)).bytes;
  return absl::OkStatus();
}

}  // namespace upscaled::cuda
