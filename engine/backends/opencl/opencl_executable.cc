#include "engine/backends/opencl/opencl_executable.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/tile_slots.h"
#include "engine/base/string_view.h"
#include "engine/graph/pooling.h"
#include "engine/model/without_weights.h"

namespace upscaled::opencl {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t Sum(const std::vector<size_t>& values) {
  return std::accumulate(values.begin(), values.end(), size_t{0});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OpenClExecutable>> OpenClExecutable::Create(
    std::shared_ptr<Context> context, const Network& network, Precision precision,
    const ChooseLayerKernel& choose) {
  RETURN_IF_ERROR(network.Validate());
  std::shared_ptr<OpenClExecutable> executable(new OpenClExecutable(std::move(context), precision));
  Network& own = executable->network_;
  own.name = network.name;
  own.scale = network.scale;
  own.pad_px = network.pad_px;
  own.align_px = network.align_px;
  for (const Layer& layer : network.layers) {
    RETURN_IF_ERROR(executable->AppendLayer(layer, choose));
  }
  executable->slot_of_ = AssignSlots(own);
  executable->poolings_ = ListPoolings(own);
  ASSIGN_OR_RETURN(executable->zero_,
                   ElementwiseFunction(*executable->context_, precision, "zero"));
  RETURN_IF_ERROR(executable->ChooseTile());
  return executable;
}

absl::Status OpenClExecutable::AppendLayer(const Layer& layer, const ChooseLayerKernel& choose) {
  std::unique_ptr<LayerKernel> kernel;
  const KernelInfo* info = nullptr;
  if (layer.op != Op::kInput) {
    ASSIGN_OR_RETURN(const KernelChoice choice, choose(layer));
    // Packed weights are at most four times the network's, padding of channels aside.
    if (layer.weights.size() * sizeof(float) > kMaxWeightBytes / 4) {
      return absl::ResourceExhaustedError(
          absl::StrCat("layer '", layer.name, "' has ", layer.weights.size() * sizeof(float) / kMiB,
                       " MiB of weights, the limit is ", kMaxWeightBytes / 4 / kMiB));
    }
    info = choice.info;
    ASSIGN_OR_RETURN(kernel, info->create(*context_, layer, precision_, choice.config));
    weight_bytes_ += kernel->WeightBytes();
    if (weight_bytes_ > kMaxWeightBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("layer '", layer.name, "' brings the packed weights to ",
                       weight_bytes_ / kMiB, " MiB, the limit is ", kMaxWeightBytes / kMiB));
    }
  }
  block_px_.push_back(kernel ? kernel->block_px() : 1);
  kernel_infos_.push_back(info);
  kernels_.push_back(std::move(kernel));
  network_.layers.push_back(WithoutWeights(layer));
  return absl::OkStatus();
}

TilePlan OpenClExecutable::MakePlan(const Rect& tile, Size image) const {
  return PlanTile(network_, image, tile, block_px_);
}

size_t OpenClExecutable::WorkspaceBytes(Size tile) const {
  return TensorBytes(AnywhereTile(tile)) + TransferBytes(AnywhereTile(tile));
}

size_t OpenClExecutable::HostWorkspaceBytes(Size tile) const {
  if (context_->device.shares_host_memory) return WorkspaceBytes(tile);
  return TransferBytes(AnywhereTile(tile));
}

size_t OpenClExecutable::TransferBytes(const InnerTile& tile) const {
  const size_t scale = network_.scale;
  return static_cast<size_t>(tile.rect.Area()) * (1 + scale * scale) * 4 * sizeof(float);
}

size_t OpenClExecutable::TensorBytes(const InnerTile& tile) const {
  const std::vector<Rect> rects = TensorRectsOf(Plan(tile.rect, tile.image));
  return Sum(SlotBytes(network_, slot_of_, rects, precision_));
}

std::unique_ptr<ActivationCache> OpenClExecutable::CreateActivationCache() const {
  return poolings_.empty() ? nullptr : std::make_unique<CachedTile>(this, context_);
}

size_t OpenClExecutable::ActivationCacheBytes(Size tile) const {
  return poolings_.empty() ? 0 : TensorBytes(AnywhereTile(tile));
}

absl::StatusOr<std::vector<size_t>> OpenClExecutable::SlotBytesOf(
    std::span<const Rect> rects) const {
  // Kernels count values in an int.
  constexpr size_t kMaxValues = std::numeric_limits<int>::max();
  const size_t max_bytes =
      std::min(context_->device.max_buffer_bytes, kMaxValues * StorageBytes(precision_));
  for (size_t i = 0; i < rects.size(); ++i) {
    const size_t bytes =
        TensorValues(rects[i], network_.layers[i].out_channels) * StorageBytes(precision_);
    if (bytes > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "layer '", network_.layers[i].name, "' of the tile needs a buffer of ", bytes / kMiB,
          " MiB, the limit of ", context_->device.name, " is ", max_bytes / kMiB));
    }
  }
  return SlotBytes(network_, slot_of_, rects, precision_);
}

// The larger a tile, the less is computed twice, until it takes long (a cancelled request waits for
// it) or much memory. CPUs compute layer after layer from their caches, which are small.
absl::Status OpenClExecutable::ChooseTile() {
  constexpr double kMaxMacs = 150e9;
  constexpr Size kLargestFirst[] = {{960, 540}, {720, 408}, {480, 270}, {360, 204}, {240, 135}};
  const size_t good_bytes = context_->device.is_cpu
                                ? 64 * kMiB
                                : std::min(context_->device.memory_bytes / 8, 2048 * kMiB);
  for (const Size size : kLargestFirst) {
    const InnerTile tile(size);
    const TilePlan plan = Plan(tile.rect, tile.image);
    const auto slot_bytes = SlotBytesOf(TensorRectsOf(plan));
    if (slot_bytes.ok() && Sum(*slot_bytes) <= good_bytes &&
        TileMacs(network_, plan.regions) <= kMaxMacs) {
      preferred_tile_ = size;
      return absl::OkStatus();
    }
  }
  preferred_tile_ = {120, 72};
  const InnerTile tile(preferred_tile_);
  ASSIGN_OR_RETURN(const std::vector<size_t> slot_bytes,
                   SlotBytesOf(TensorRectsOf(Plan(tile.rect, tile.image))));
  const size_t bytes = Sum(slot_bytes), limit = context_->device.memory_bytes / 4;
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a tile of ", preferred_tile_.width, "x", preferred_tile_.height, " pixels needs ",
      bytes / kMiB, " MiB of ", context_->device.name, "'s memory, the limit is ", limit / kMiB));
}

}  // namespace upscaled::opencl
