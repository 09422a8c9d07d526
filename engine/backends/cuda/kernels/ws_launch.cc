#include "engine/backends/cuda/kernels/ws_launch.h"

#include <algorithm>

#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

int UnitsOf(const ConvShape& shape) { return CeilDiv(shape.in_channels, kStepChannels); }

BlockGrid GridOf(const WsVariant& variant, const ConvParams& params) {
  return MakeBlockGrid(params, variant.width(), variant.height(), variant.pixels);
}

WsResult ResultOf(const ConvShape& shape) {
  if (shape.out_channels <= kThinColumns) return WsResult::kThin;
  return shape.out_stride == 2 ? WsResult::kEnlarged : WsResult::kPlanes;
}

// The pixels of a group by the columns of one.
int PixelsFor(WsResult result, int columns) {
  switch (result) {
    case WsResult::kPlanes:
      return columns <= 32 ? 2 : 1;
    case WsResult::kThin:
      return columns <= 8 ? 8 : columns <= 16 ? 4 : 1;
    case WsResult::kEnlarged:
      break;
  }
  return 1;
}

// A block a multiprocessor, as shared memory and registers allow no more.
int BlocksAtOnce(const WsVariant& variant, const ConvShape& shape, const DeviceLimits& device) {
  return std::max(1, device.multiprocessors / variant.ColumnBlocks(shape));
}

}  // namespace

bool WsFits(const WsVariant& variant, const ConvShape& shape, bool adds, size_t shared_bytes) {
  const WsResult result = ResultOf(shape);
  const bool takes = variant.result == result && variant.taps() == shape.taps &&
                     shape.in_stride == 1 && shape.crop == 0 &&
                     (result != WsResult::kPlanes || shape.out_stride == 1);
  const bool suits =
      (result == WsResult::kThin ? variant.ColumnBlocks(shape) == 1 : variant.adds == adds) &&
      variant.pixels == PixelsFor(result, shape.Columns());
  const int unused = variant.ColumnBlocks(shape) * variant.columns() - shape.Columns();
  const int units = UnitsOf(shape);
  return takes && suits && unused <= variant.columns() / 4 && units <= WsVariant::kMaxUnits &&
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
  launch.grid = GridOf(variant, params);
  if (launch.grid.count == 0) return launch;
  launch.src = BoxesOf(params.src, params.src.region, params.tiles, variant.box_width(),
                       variant.box_height(), kStepPlanes);
  const bool enlarged = variant.result == WsResult::kEnlarged;
  const auto stored = [&](const TensorView& view, int row) {
    if (!enlarged) {
      return BoxesOf(view, region, params.tiles, 8, variant.height(), variant.staged_planes);
    }
    return EverySecondRow(BoxesOf(view, region, params.tiles, 16, variant.height(), 1), region,
                          row);
  };
  for (int row = 0; row < (enlarged ? 2 : 1) && variant.result != WsResult::kThin; ++row) {
    WsResultBoxes& result = launch.results[row];
    result.first_y = region.y + (enlarged ? (region.y ^ row) & 1 : 0);
    result.empty = result.first_y >= region.bottom();
    if (result.empty) continue;
    result.dst = stored(params.dst, row);
    if (params.residual.data != nullptr) result.residual = stored(params.residual, row);
  }
  launch.units = UnitsOf(params.shape);
  launch.stages = variant.Stages(launch.units, device.shared_bytes);
  launch.blocks = std::min(launch.grid.count, BlocksAtOnce(variant, params.shape, device));
  launch.column_blocks = variant.ColumnBlocks(params.shape);
  launch.shared_bytes = variant.SharedBytes(launch.units, launch.stages);
  return launch;
}

}  // namespace upscaled::cuda
