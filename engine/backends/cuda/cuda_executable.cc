#include "engine/backends/cuda/cuda_executable.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/candidates.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::cuda {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaExecutable>> CudaExecutable::Create(
    std::shared_ptr<Context> context, const Network& network, Precision precision,
    const ConvKernel* forced, KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  RETURN_IF_ERROR(context->Enter());
  std::shared_ptr<CudaExecutable> executable(new CudaExecutable(std::move(context), precision));
  executable->program_ = BuildProgram(network, &FirstConvSupports);
  ASSIGN_OR_RETURN(executable->kernels_,
                   executable->MakeKernels(network, precision, forced, chooser));
  if (precision == Precision::kFast) {
    ASSIGN_OR_RETURN(executable->exact_kernels_,
                     executable->MakeKernels(network, Precision::kExact, nullptr, nullptr));
  }
  RETURN_IF_ERROR(executable->ChooseTile());
  return executable;
}

absl::StatusOr<std::vector<StepKernel>> CudaExecutable::MakeKernels(const Network& network,
                                                                    Precision precision,
                                                                    const ConvKernel* forced,
                                                                    KernelChooser* chooser) {
  std::vector<StepKernel> kernels;
  bool forced_used = forced == nullptr;
  for (const Step& step : program_.steps) {
    const Layer& layer = network.layers[step.conv < 0 ? step.layer : step.conv];
    // Packed weights are at most four times the network's, filled up channels aside.
    const size_t bytes = layer.weights.size() * sizeof(float);
    if (bytes > kMaxWeightBytes / 4) {
      return absl::ResourceExhaustedError(
          absl::StrCat("layer '", layer.name, "' has ", bytes / kMiB,
                       " MiB of weights, the limit is ", kMaxWeightBytes / 4 / kMiB));
    }
    const ConvKernel* preferred = nullptr;
    if (step.kind == Step::Kind::kConv) {
      preferred = PreferredKernel(context_, FusedOf(network, step), precision, forced, chooser);
    }
    ASSIGN_OR_RETURN(StepKernel kernel,
                     StepKernel::Create(context_, network, program_, step, precision, preferred));
    forced_used |= kernel.conv_kernel() == forced;
    weight_bytes_ += kernel.WeightBytes();
    if (weight_bytes_ > kMaxWeightBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("layer '", layer.name, "' brings the packed weights to ",
                       weight_bytes_ / kMiB, " MiB, the limit is ", kMaxWeightBytes / kMiB));
    }
    kernels.push_back(std::move(kernel));
  }
  if (forced_used) return kernels;
  return absl::UnimplementedError(
      absl::StrCat("kernel '", ToAbsl(forced->name), "' supports no layer of the network"));
}

absl::Status CudaExecutable::CheckPlan(const PlacedTile& plan) const {
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const Home& home = program_.homes[i];
    if (home.root < 0) continue;
    const int64_t pixels = plan.rects[home.root].Area() * program_.roots[home.root].planes;
    if (pixels <= kMaxTilePixels) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("layer '", network().layers[i].name, "' of the tile has ", pixels,
                     " pixels in its planes, the limit of the cuda backend is ", kMaxTilePixels));
  }
  return absl::OkStatus();
}

TilePlan CudaExecutable::MakePlan(const Rect& tile, Size image) const {
  return PlanTile(program_.network, image, tile);
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

// What CudaStream::RunExactly holds: a result of floats, and of a quarter another one and, at
// worst, every second pixel as a run.
size_t CudaExecutable::RedoneBytes(Size tile) const {
  if (precision_ == Precision::kExact) return 0;
  const size_t scale = program_.network.scale;
  const size_t result =
      static_cast<size_t>(tile.Area()) * scale * scale * 3 * SampleBytes(SampleType::kF32);
  const size_t pixels = static_cast<size_t>(tile.Area()) * scale * scale;
  return result + (result + pixels * sizeof(Rect) / 2) / 4;
}

std::unique_ptr<ActivationCache> CudaExecutable::CreateActivationCache() const {
  return program_.poolings.empty() ? nullptr : std::make_unique<CachedTile>(this, context_);
}

size_t CudaExecutable::ActivationCacheBytes(Size tile) const {
  constexpr int64_t kMinPixels = 256 * 256;  // smaller ones gain more from batches and graphs
  if (program_.poolings.empty() || tile.Area() < kMinPixels) return 0;
  return LargestLayout(AnywhereTile(tile)).tensor_bytes();
}

// The larger a tile, the less is computed twice and the better the device is filled, until it takes
// long (a cancelled request waits for it) or much memory.
absl::Status CudaExecutable::ChooseTile() {
  constexpr double kMaxMacs = 100e12;  // some tenths of a second of a large device
  constexpr Size kLargestFirst[] = {{1920, 1080}, {1024, 1024}, {768, 768}, {512, 512}, {256, 256}};
  constexpr Size kSmallest = {128, 128};
  const size_t memory_bytes = context_->device().memory_bytes;
  const size_t good_bytes = std::min(memory_bytes / 16, 4096 * kMiB);
  for (const Size size : kLargestFirst) {
    const InnerTile tile(size);
    batch_bytes_ = LargestLayout(tile).bytes;
    preferred_tile_ = size;
    const double macs = TileMacs(program_.network, Plan(tile.rect, tile.image).regions);
    if (batch_bytes_ <= good_bytes && macs <= kMaxMacs) return absl::OkStatus();
  }
  preferred_tile_ = kSmallest;
  batch_bytes_ = LargestLayout(InnerTile(kSmallest)).bytes;
  const size_t limit = memory_bytes / 8;
  if (batch_bytes_ <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a tile of ", kSmallest.width, "x", kSmallest.height, " pixels needs ", batch_bytes_ / kMiB,
      " MiB of ", context_->device().name, "'s memory, the limit is ", limit / kMiB));
}

}  // namespace upscaled::cuda
