#include "engine/backends/cuda/batch_views.h"

#include "engine/base/geometry.h"

namespace upscaled::cuda {
namespace {

SampleKind KindOf(SampleType type) {
  switch (type) {
    case SampleType::kU8:
      return SampleKind::kU8;
    case SampleType::kU16:
      return SampleKind::kU16;
    case SampleType::kF32:
      return SampleKind::kF32;
  }
  return SampleKind::kU8;
}

}  // namespace

void SetSums(const Program& program, const PlacedTile& plan, size_t pooling, int64_t* sums,
             BatchViews& views) {
  const std::vector<Rect> strips = SumStrips(plan.partial_sum_rects[pooling]);
  if (strips.size() != 1) return;
  views.summed_layer = program.network.layers[program.poolings[pooling]].inputs[0];
  views.sums = {sums, strips[0]};
}

BatchViews ViewsOf(const Program& program, const PlacedTile& plan, Precision precision,
                   const BatchShape& shape, const BatchLayout& layout, uint8_t* memory,
                   uint8_t* tensors) {
  const size_t value_bytes = StorageBytes(precision);
  BatchViews views;
  views.tiles = shape.tiles;
  views.image_size = plan.place.image;
  views.image = {.data = memory + layout.source,
                 .kind = KindOf(shape.src_type),
                 .channels = shape.src_channels,
                 .rect = plan.source,
                 .tile_stride = plan.source.Area() * shape.src_channels};
  const Rect result = Scale(plan.place.tile, program.network.scale);
  views.samples = {.data = memory + layout.result,
                   .kind = KindOf(shape.dst_type),
                   .channels = kRgbChannels,
                   .rect = result,
                   .tile_stride = result.Area() * kRgbChannels,
                   .lost = reinterpret_cast<uint32_t*>(memory + layout.lost)};
  views.gave_up = reinterpret_cast<uint32_t*>(memory + layout.gave_up);
  views.gated_weights = memory + layout.gated;
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    TensorView& view = views.tensors.emplace_back();
    view.region = view.rect = plan.regions[i];
    view.layer = plan.layers[i];
    view.channels = program.network.layers[i].out_channels;
    const Placement& place = program.placements[i];
    if (place.allocation < 0) continue;
    const Allocation& allocation = program.allocations[place.allocation];
    view.rect = plan.rects[place.allocation];
    const int64_t plane_pixels = view.rect.Area();
    view.data = tensors + layout.slots[allocation.slot] +
                place.first_plane * plane_pixels * kPlaneChannels * value_bytes;
    view.tile_stride = plane_pixels * allocation.planes;
  }
  views.means.resize(plan.regions.size());
  for (size_t i = 0; i < layout.means.size(); ++i) {
    views.means[program.poolings[i]] = reinterpret_cast<const float*>(memory + layout.means[i]);
  }
  if (shape.gathers) {
    SetSums(program, plan, shape.known_means, reinterpret_cast<int64_t*>(memory + layout.result),
            views);
  }
  return views;
}

}  // namespace upscaled::cuda
