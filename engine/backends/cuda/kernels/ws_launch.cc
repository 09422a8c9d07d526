#include "engine/backends/cuda/kernels/ws_launch.h"

#include <algorithm>

#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

int UnitsOf(const ConvShape& shape) { return CeilDiv(shape.in_channels, kStepChannels); }

int ColumnBlocks(const WsVariant& variant, const ConvShape& shape) {
  return CeilDiv(shape.Columns(), variant.columns());
}

BlockGrid GridOf(const WsVariant& variant, const ConvParams& params) {
  return MakeBlockGrid(params, variant.width(), variant.height());
}

// A block a multiprocessor, as shared memory and registers allow no more.
int BlocksAtOnce(const WsVariant& variant, const ConvShape& shape, const DeviceLimits& device) {
  return std::max(1, device.multiprocessors / ColumnBlocks(variant, shape));
}

}  // namespace

bool WsFits(const WsVariant& variant, const ConvShape& shape, bool adds, size_t shared_bytes) {
  const int columns = shape.Columns(), units = UnitsOf(shape);
  const bool few = columns <= 32;  // columns that pairs take
  const int unused = RoundUp(columns, variant.columns()) - columns;
  return variant.adds == adds && variant.pairs == few && unused <= variant.columns() / 4 &&
         units <= WsVariant::kMaxUnits &&
         variant.Stages(units, shared_bytes) >= WsVariant::kMinStages;
}

int ChooseWsVariant(const ConvParams& params, const DeviceLimits& device) {
  int best = -1;
  int64_t best_clocks = 0;
  for (int i = 0; i < kWsVariantCount; ++i) {
    const WsVariant& variant = kWsVariants[i];
    if (!WsFits(variant, params.shape, params.residual.data != nullptr, device.shared_bytes))
      continue;
    const BlockGrid grid = GridOf(variant, params);
    const int64_t rounds = CeilDiv(grid.count, BlocksAtOnce(variant, params.shape, device));
    const int64_t clocks = rounds * variant.Clocks(UnitsOf(params.shape));
    if (best >= 0 && clocks >= best_clocks) continue;
    best = i;
    best_clocks = clocks;
  }
  return best;
}

WsLaunch MakeWsLaunch(const WsVariant& variant, const ConvParams& params,
                      const DeviceLimits& device) {
  const Rect& region = params.dst.region;
  WsLaunch launch;
  launch.src = BoxesOf(params.src, params.src.region, params.tiles, variant.box_width(),
                       variant.box_height(), kStepPlanes);
  const auto stored = [&](const TensorView& view) {
    return BoxesOf(view, region, params.tiles, 8, variant.height(), variant.staged_planes);
  };
  launch.dst = stored(params.dst);
  if (params.residual.data != nullptr) launch.residual = stored(params.residual);
  launch.grid = GridOf(variant, params);
  launch.units = UnitsOf(params.shape);
  launch.stages = variant.Stages(launch.units, device.shared_bytes);
  launch.blocks = std::min(launch.grid.count, BlocksAtOnce(variant, params.shape, device));
  launch.column_blocks = ColumnBlocks(variant, params.shape);
  launch.shared_bytes = variant.SharedBytes(launch.units, launch.stages);
  return launch;
}

}  // namespace upscaled::cuda
