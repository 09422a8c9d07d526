#include "engine/backends/opencl/opencl_executable.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/opencl_kernel_set.h"
#include "engine/backends/opencl/tile_slots.h"
#include "engine/graph/network_plan.h"
#include "engine/graph/tile_choice.h"
#include "engine/graph/weight_budget.h"

namespace upscaled::opencl {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t Sum(const std::vector<size_t>& values) {
  return std::accumulate(values.begin(), values.end(), size_t{0});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OpenClExecutable>> OpenClExecutable::Create(
    std::shared_ptr<Context> context, const Network& network, Precision precision,
    const KernelEntry* forced, KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  auto executable = Build(context, network, precision, forced, chooser);
  if (!absl::IsResourceExhausted(executable.status()) || forced != nullptr) return executable;
  // Blocks of kernels widen the halo of a tile with every layer.
  auto without_blocks = Build(std::move(context), network, precision, &Conv3x3Kernel(), nullptr);
  return without_blocks.ok() ? std::move(without_blocks) : std::move(executable);
}

absl::StatusOr<std::shared_ptr<const OpenClExecutable>> OpenClExecutable::Build(
    std::shared_ptr<Context> context, const Network& network, Precision precision,
    const KernelEntry* forced, KernelChooser* chooser) {
  std::shared_ptr<OpenClExecutable> executable(new OpenClExecutable(std::move(context), precision));
  RETURN_IF_ERROR(executable->MakeKernels(network, forced, chooser));
  ASSIGN_OR_RETURN(executable->zero_,
                   ElementwiseFunction(*executable->context_, precision, "zero"));
  RETURN_IF_ERROR(executable->ChooseTile());
  return executable;
}

absl::Status OpenClExecutable::MakeKernels(const Network& network, const KernelEntry* forced,
                                           KernelChooser* chooser) {
  const OpenClKernelSet kernels(context_, precision_);
  ASSIGN_OR_RETURN(NetworkPlan plan, PlanNetwork(network, kernels, forced, chooser));
  const size_t count = network.layers.size();
  kernels_.resize(count);
  kernel_infos_.resize(count);
  block_px_.assign(count, 1);
  WeightBudget budget;
  for (const Node& node : plan.nodes) {
    const int i = node.layer();
    if (node.kernel.info == nullptr) continue;
    const Layer& layer = network.layers[i];
    ASSIGN_OR_RETURN(kernels_[i], opencl::Create(*context_, layer, precision_, node.kernel));
    RETURN_IF_ERROR(budget.Add(layer, kernels_[i]->WeightBytes()));
    kernel_infos_[i] = node.kernel.info;
    block_px_[i] = kernels_[i]->block_px();
  }
  weight_bytes_ = budget.bytes();
  std::vector<int> allocation_of(count);
  std::iota(allocation_of.begin(), allocation_of.end(), 0);
  slot_of_ = AssignSlots(plan, allocation_of);
  poolings_ = std::move(plan.poolings);
  network_ = std::move(plan.network);
  return absl::OkStatus();
}

TilePlan OpenClExecutable::MakePlan(const Rect& tile, Size image) const {
  return PlanTile(network_, image, tile, block_px_);
}

size_t OpenClExecutable::WorkspaceBytes(Size tile) const {
  // A larger tile than the preferred one is a whole image.
  const bool whole = halo_counts_ && tile.Area() > preferred_tile_.Area();
  const size_t tensors =
      whole ? std::max(TensorBytes(WholeImage(tile)), TensorBytes(AnywhereTile(preferred_tile_)))
            : TensorBytes(AnywhereTile(tile));
  return tensors + TransferBytes(AnywhereTile(tile));
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

absl::StatusOr<size_t> OpenClExecutable::CheckedTensorBytes(const InnerTile& tile) const {
  const std::vector<Rect> rects = TensorRectsOf(Plan(tile.rect, tile.image));
  ASSIGN_OR_RETURN(const std::vector<size_t> slots, SlotBytesOf(rects));
  return Sum(slots);
}

bool OpenClExecutable::ComputesWhole(Size image) const {
  // The pipeline limits those of networks with global poolings by their bytes.
  const bool is_large = std::max(image.width, image.height) > kMaxWholeImagePx;
  if (!halo_counts_ || (is_large && poolings_.empty())) return false;
  const absl::StatusOr<size_t> bytes = CheckedTensorBytes(WholeImage(image));
  return bytes.ok() && *bytes <= MaxTensorBytes();
}

std::unique_ptr<ActivationCache> OpenClExecutable::CreateActivationCache() const {
  return poolings_.empty() ? nullptr : std::make_unique<CachedTile>(this, context_);
}

size_t OpenClExecutable::ActivationCacheBytes(Size tile, Size image) const {
  return poolings_.empty() ? 0 : TensorBytes(AnywhereTile(tile, image));
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

// CPUs compute layer after layer from their caches, which are small.
absl::Status OpenClExecutable::ChooseTile() {
  static constexpr Size kLargestFirst[] = {
      {960, 540}, {720, 408}, {480, 270}, {360, 204}, {240, 135}};
  const Device& device = context_->device;
  const TileLimits limits{
      .largest_first = kLargestFirst,
      .smallest = {120, 72},
      .max_macs = 150e9,
      .good_bytes = device.is_cpu ? 64 * kMiB : std::min(device.memory_bytes / 8, 2048 * kMiB),
      .max_bytes = MaxTensorBytes(),
      .memory_name = absl::StrCat(device.name, "'s memory")};
  const auto macs = [&](Size size) {
    const InnerTile tile(size);
    return TileMacs(network_, Plan(tile.rect, tile.image).regions);
  };
  const auto bytes = [&](Size size) { return CheckedTensorBytes(InnerTile(size)); };
  ASSIGN_OR_RETURN(preferred_tile_, ChooseLargestTile(limits, {macs, bytes}));
  halo_counts_ = TensorBytes(InnerTile(limits.smallest)) > limits.good_bytes;
  return absl::OkStatus();
}

}  // namespace upscaled::opencl
