#include "engine/backends/opencl/tile_plan.h"

#include <algorithm>

#include "engine/backends/opencl/tensor.h"
#include "engine/base/int_math.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::opencl {
namespace {

// The last pixel of the block that `position` lies in.
int EndOfBlock(int position, int block) { return position / block * block + block - 1; }

// What computing `out` in whole blocks reads along an axis, the layer's borders ignored.
PixelRange ReadsOf(const Layer& layer, int begin, int end, int block, int in_side) {
  return InputRange(layer, {begin / block * block, EndOfBlock(end - 1, block)}, in_side);
}

void Include(Rect& rect, PixelRange x, PixelRange y) {
  const int right = std::max(rect.right(), x.last + 1),
            bottom = std::max(rect.bottom(), y.last + 1);
  rect.x = std::min(rect.x, x.first);
  rect.y = std::min(rect.y, y.first);
  rect.width = right - rect.x;
  rect.height = bottom - rect.y;
}

std::vector<size_t> LastUses(const Network& network) {
  std::vector<size_t> last_use(network.layers.size());
  for (size_t i = 0; i < network.layers.size(); ++i) {
    last_use[i] = i;
    for (const int input : network.layers[i].inputs) last_use[input] = i;
  }
  last_use.back() = network.layers.size();
  return last_use;
}

}  // namespace

TilePlan PlanTile(const Network& network, std::span<const int> block_px, Size image,
                  const Rect& tile) {
  TilePlan plan;
  plan.regions = LayerRegions(network, image, tile, block_px);
  plan.layers = LayerSizes(network, image);
  plan.rects = plan.regions;
  for (size_t i = 1; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const Rect& out = plan.regions[i];
    if (out.empty()) continue;
    for (const int input : layer.inputs) {
      const Size in = plan.layers[input];
      Include(plan.rects[input], ReadsOf(layer, out.x, out.right(), block_px[i], in.width),
              ReadsOf(layer, out.y, out.bottom(), block_px[i], in.height));
    }
  }
  return plan;
}

std::vector<int> AssignSlots(const Network& network) {
  const std::vector<size_t> last_use = LastUses(network);
  std::vector<size_t> busy_until;  // of each slot
  std::vector<int> slots;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    // A slot whose last reader ran before this layer, which may not overwrite its own inputs.
    const auto free_slot =
        std::find_if(busy_until.begin(), busy_until.end(), [&](size_t last) { return last < i; });
    slots.push_back(static_cast<int>(free_slot - busy_until.begin()));
    if (free_slot == busy_until.end()) {
      busy_until.push_back(last_use[i]);
    } else {
      *free_slot = last_use[i];
    }
  }
  return slots;
}

std::vector<size_t> SlotBytes(const Network& network, std::span<const int> slots,
                              const TilePlan& plan, Precision precision) {
  std::vector<size_t> bytes;
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t slot = slots[i];
    if (slot >= bytes.size()) bytes.resize(slot + 1);
    const size_t values = TensorValues(plan.rects[i], network.layers[i].out_channels);
    bytes[slot] = std::max(bytes[slot], values * StorageBytes(precision));
  }
  return bytes;
}

}  // namespace upscaled::opencl
