#include "engine/backends/cuda/kernels/conv_choice.h"

#include <algorithm>
#include <iterator>

#include "engine/backends/cuda/kernels/columns_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_wgmma_kernel.h"
#include "engine/backends/cuda/kernels/ws_launch.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

// mma.m16n8k16, cp.async.
constexpr int kMmaArchitecture = 80;
// Only sm_90a has wgmma.
constexpr int kWgmmaArchitecture = 90;

bool IsDense3x3(const ConvShape& shape) { return shape.taps == 3 && shape.in_stride == 1; }

}  // namespace

const WsVariant* FindWsVariant(const ConvShape& shape, bool adds, const DeviceLimits& device) {
  if (device.architecture != kWgmmaArchitecture) return nullptr;
  const auto* const found = std::ranges::find_if(kWsVariants, [&](const WsVariant& variant) {
    return WsFits(variant, shape, adds, device.shared_bytes);
  });
  return found == std::end(kWsVariants) ? nullptr : found;
}

int Conv3x3WgmmaColumns(const ConvShape& shape, const DeviceLimits& device) {
  constexpr int kColumns = Conv3x3Wgmma::kColumns, kMaxUnused = kColumns / 4;
  const int unused = RoundUp(shape.Columns(), kColumns) - shape.Columns();
  return device.architecture == kWgmmaArchitecture && IsDense3x3(shape) && unused <= kMaxUnused &&
                 Conv3x3Wgmma::SharedBytes(shape) <= device.shared_bytes
             ? kColumns
             : 0;
}

int Conv3x3MmaColumns(const ConvShape& shape, const DeviceLimits& device) {
  if (device.architecture < kMmaArchitecture || !IsDense3x3(shape)) return 0;
  for (const int columns : {64, 32, 16}) {
    const bool needed = columns == 16 || shape.Columns() > columns / 2;
    if (needed && Conv3x3Mma::SharedBytes(shape, columns) <= device.shared_bytes) return columns;
  }
  return 0;
}

int ColumnsMmaColumns(const ConvShape& shape, const DeviceLimits& device) {
  const bool overlaps =
      shape.taps > 1 && shape.in_stride == 1 && shape.out_channels <= kThinColumns;
  if (device.architecture < kMmaArchitecture || !overlaps) return 0;
  for (const int columns : {32, 48}) {
    if (ColumnsMma::TapColumns(shape) <= columns) {
      return ColumnsMma::SharedBytes(columns) <= device.shared_bytes ? columns : 0;
    }
  }
  return 0;
}

int Im2colMmaColumns(const ConvShape& shape, const DeviceLimits& device) {
  if (device.architecture < kMmaArchitecture) return 0;
  return shape.Columns() > 16 ? 64 : 16;
}

int Im2colFfmaColumns(const ConvShape& shape) { return shape.Columns() > 16 ? 64 : 16; }

}  // namespace upscaled::cuda
