#include "engine/backends/cpu/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/base/check.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::cpu {
namespace {

// The row function of each operation writes `width_px` pixels of row y from column x of `dst`.
using RowFunction = void (*)(const Layer& layer, std::span<const Tensor> src, const Tensor& dst,
                             int y, int x, int width_px);

// Blocked tensors hold zeros beyond their last channel, so the next layer reads no garbage.
void ZeroPadding(const Tensor& dst, int y, int x, int width_px) {
  if (!dst.blocked() || dst.channels % 16 == 0) return;
  float* row = dst.At(y, x) + (dst.planes() - 1) * dst.plane_stride;
  for (int n = 0; n < width_px; ++n) {
    std::fill(row + n * 16 + dst.channels % 16, row + n * 16 + 16, 0.0f);
  }
}

void PixelShuffleRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y,
                     int x, int width_px) {
  const int f = layer.factor;
  ZeroPadding(dst, y, x, width_px);
  const float* const row = src[0].At(y / f, x / f);
  for (int c = 0; c < dst.channels; ++c) {
    const int first = (c * f + y % f) * f;
    const float* in = row;
    float* out = dst.At(y, x) + dst.ChannelOffset(c);
    int column = x % f;  // of this input pixel's
    for (int n = 0; n < width_px; ++n, out += dst.pixel_stride) {
      *out = in[src[0].ChannelOffset(first + column)];
      if (++column == f) {
        column = 0;
        in += src[0].pixel_stride;
      }
    }
  }
}

// Each input pixel `factor` times, the first one and the last perhaps less often. kStride at
// compile time, or 0: as `stride` says.
template <int kStride>
void RepeatPixels(const float* in, int stride, int factor, int x, int width_px, float* out) {
  if (kStride > 0) stride = kStride;
  int end = factor - x % factor;  // behind this input pixel's last one
  for (int n = 0; n < width_px; end += factor, in += stride) {
    for (const int last = std::min(end, width_px); n < last; ++n, out += stride) {
      for (int c = 0; c < stride; ++c) out[c] = in[c];
    }
  }
}

void NearestRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
                int width_px) {
  const int f = layer.factor, stride = dst.pixel_stride;
  const auto repeat = stride == 3                ? &RepeatPixels<3>
                      : stride == kPlaneChannels ? &RepeatPixels<kPlaneChannels>
                                                 : &RepeatPixels<0>;
  for (int plane = 0; plane < dst.planes(); ++plane) {
    repeat(src[0].At(y / f, x / f) + plane * src[0].plane_stride, stride, f, x, width_px,
           dst.At(y, x) + plane * dst.plane_stride);
  }
}

// Where output position `out` lies between two input positions of a half-pixel bilinear resize; in
// integers, since floats lose the weight's digits far from the origin.
struct Between {
  int low, high;
  float weight;  // the weight of `high`
};

Between Interpolate(int out, int factor, int size) {
  const int twice = 2 * out + 1 - factor;  // 2 * factor * the input position
  const int low = FloorDiv(twice, 2 * factor);
  const float weight = static_cast<float>(twice - low * 2 * factor) / (2.0f * factor);
  return {std::max(low, 0), std::min(low + 1, size - 1), weight};
}

void BilinearRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
                 int width_px) {
  const Tensor& in = src[0];
  const Between v = Interpolate(y, layer.factor, in.layer_height_px);
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const float* top = in.At(v.low, 0) + plane * in.plane_stride;
    const float* bottom = in.At(v.high, 0) + plane * in.plane_stride;
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    for (int n = 0; n < width_px; ++n, out += dst.pixel_stride) {
      const Between h = Interpolate(x + n, layer.factor, in.layer_width_px);
      const ptrdiff_t left = static_cast<ptrdiff_t>(h.low) * in.pixel_stride;
      const ptrdiff_t right = static_cast<ptrdiff_t>(h.high) * in.pixel_stride;
      for (int c = 0; c < in.pixel_stride; ++c) {
        const float a = top[left + c] + (top[right + c] - top[left + c]) * h.weight;
        const float b = bottom[left + c] + (bottom[right + c] - bottom[left + c]) * h.weight;
        out[c] = a + (b - a) * v.weight;
      }
    }
  }
}

// Pixels lie on each other; `crop_px` more of the input are around them.
void CheckSize(const Tensor& src, const Tensor& dst, int crop_px) {
  UPSCALED_CHECK(src.layer_width_px == dst.layer_width_px + 2 * crop_px &&
                 src.layer_height_px == dst.layer_height_px + 2 * crop_px);
}

// By one factor a channel.
void ScaleRow(std::span<const Tensor> src, const Tensor& dst, int y, int x, int width_px) {
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const float* in = src[0].At(y, x) + plane * src[0].plane_stride;
    const float* factors = src[1].At(0, 0) + plane * src[1].plane_stride;
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    const int stride = dst.pixel_stride;
    for (int n = 0; n < width_px; ++n, in += stride, out += stride) {
      for (int c = 0; c < stride; ++c) out[c] = in[c] * factors[c];
    }
  }
}

template <bool kMultiply>
void CombineRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
                int width_px) {
  const bool scales = kMultiply && src[1].layer_size() == Size{1, 1};
  if (scales) return ScaleRow(src, dst, y, x, width_px);
  CheckSize(src[1], dst, layer.crop_px);
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const float* a = src[0].At(y, x) + plane * src[0].plane_stride;
    const float* b = src[1].At(y + layer.crop_px, x + layer.crop_px) + plane * src[1].plane_stride;
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    const int count = width_px * dst.pixel_stride;
    for (int i = 0; i < count; ++i) out[i] = kMultiply ? a[i] * b[i] : a[i] + b[i];
  }
}

void ConcatRow(const Layer& /*layer*/, std::span<const Tensor> src, const Tensor& dst, int y, int x,
               int width_px) {
  ZeroPadding(dst, y, x, width_px);
  int first = 0;
  for (const Tensor& in : src) {
    CheckSize(in, dst, /*crop_px=*/0);
    for (int c = 0; c < in.channels;) {
      // Whole planes at once where both sides have them.
      const bool whole = in.blocked() && dst.blocked() && (first + c) % 16 == 0 && c % 16 == 0;
      const int run = whole ? std::min(16, in.channels - c) : 1;
      const float* from = in.At(y, x) + in.ChannelOffset(c);
      float* to = dst.At(y, x) + dst.ChannelOffset(first + c);
      const bool in_place = from == to;
      for (int n = 0; n < width_px && !in_place;
           ++n, from += in.pixel_stride, to += dst.pixel_stride) {
        std::copy_n(from, run, to);
      }
      c += run;
    }
    first += in.channels;
  }
}

void SliceRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
              int width_px) {
  const Tensor& in = src[0];
  ZeroPadding(dst, y, x, width_px);
  const bool aligned = in.blocked() && dst.blocked() && layer.first_channel % kPlaneChannels == 0;
  const int step = aligned ? kPlaneChannels : 1;
  for (int c = 0; c < dst.channels; c += step) {
    const float* from = in.At(y, x) + in.ChannelOffset(layer.first_channel + c);
    float* to = dst.At(y, x) + dst.ChannelOffset(c);
    const int run = std::min(step, dst.channels - c);
    for (int n = 0; n < width_px; ++n, from += in.pixel_stride, to += dst.pixel_stride) {
      std::copy_n(from, run, to);
    }
  }
}

void PadRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
            int width_px) {
  const Tensor& in = src[0];
  const int from_y = PadSource(layer, y, in.layer_height_px);
  const bool above_or_below = from_y < 0 || from_y >= in.layer_height_px;
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const float* row = in.At(from_y, 0) + plane * in.plane_stride;
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    for (int n = 0; n < width_px; ++n, out += dst.pixel_stride) {
      const int from_x = PadSource(layer, x + n, in.layer_width_px);
      if (above_or_below || from_x < 0 || from_x >= in.layer_width_px) {
        std::fill_n(out, dst.pixel_stride, layer.pad_value);
      } else {
        std::copy_n(row + static_cast<ptrdiff_t>(from_x) * dst.pixel_stride, dst.pixel_stride, out);
      }
    }
  }
}

// One plane's channels, times factors, plus offsets.
void ScaleAndShiftPlane(const Tensor& src, const float* factors, const float* offsets,
                        const Tensor& dst, int plane, int y, int x, int width_px) {
  const int first = plane * dst.plane_channels();
  const int channels = std::min(dst.plane_channels(), dst.channels - first);
  const float* in = src.At(y, x) + plane * src.plane_stride;
  float* out = dst.At(y, x) + plane * dst.plane_stride;
  for (int n = 0; n < width_px; ++n, in += dst.pixel_stride, out += dst.pixel_stride) {
    for (int c = 0; c < channels; ++c) out[c] = in[c] * factors[c] + offsets[c];
  }
}

void AffineRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
               int width_px) {
  ZeroPadding(dst, y, x, width_px);
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const int first = plane * dst.plane_channels();
    ScaleAndShiftPlane(src[0], &layer.weights[first], &layer.bias[first], dst, plane, y, x,
                       width_px);
  }
}

// The second input's pixel has the means of all channels, then of their squares.
void GroupNormRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
                  int width_px) {
  const auto moment = [&](int i) { return double{src[1].At(0, 0)[src[1].ChannelOffset(i)]}; };
  const int channels = dst.channels, group = channels / layer.groups;
  ZeroPadding(dst, y, x, width_px);
  std::array<float, kPlaneChannels> factors, offsets;
  double mean = 0, scale = 0;
  for (int c = 0; c < channels; ++c) {
    if (c % group == 0) {
      double square = mean = 0;
      for (int i = c; i < c + group; ++i) {
        mean += moment(i);
        square += moment(channels + i);
      }
      mean /= group;
      scale = 1 / std::sqrt(std::max(square / group - mean * mean, 0.0) + layer.epsilon);
    }
    const int place = c % kPlaneChannels;
    factors[place] = static_cast<float>(layer.weights[c] * scale);
    offsets[place] = static_cast<float>(layer.bias[c] - mean * scale * layer.weights[c]);
    if (place == kPlaneChannels - 1 || c == channels - 1) {
      ScaleAndShiftPlane(src[0], factors.data(), offsets.data(), dst, c / kPlaneChannels, y, x,
                         width_px);
    }
  }
}

// Also a lone activation: a crop of nothing.
void CropRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
             int width_px) {
  for (int plane = 0; plane < dst.planes(); ++plane) {
    std::memcpy(dst.At(y, x) + plane * dst.plane_stride,
                src[0].At(y + layer.crop_px, x + layer.crop_px) + plane * src[0].plane_stride,
                static_cast<size_t>(width_px) * dst.pixel_stride * sizeof(float));
  }
}

// kToWindows: kGridToWindows, otherwise kWindowsToGrid.
template <bool kToWindows>
void GridRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
             int width_px) {
  const Tensor& in = src[0];
  const auto source = [f = layer.factor](int at, int side) {
    const int strip = side / f;
    return kToWindows ? at % f * strip + at / f : at % strip * f + at / strip;
  };
  const int from_y = source(y, in.layer_height_px), stride = dst.pixel_stride;
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const float* row = in.At(from_y, 0) + plane * in.plane_stride;
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    for (int n = 0; n < width_px; ++n, out += stride) {
      std::copy_n(row + ptrdiff_t{1} * source(x + n, in.layer_width_px) * stride, stride, out);
    }
  }
}

void MaxPoolRow(const Layer& layer, std::span<const Tensor> src, const Tensor& dst, int y, int x,
                int width_px) {
  const Tensor& in = src[0];
  const int stride = dst.pixel_stride, first_y = y * layer.stride_px,
            end_y = std::min(first_y + layer.kernel_px, in.layer_height_px);
  for (int plane = 0; plane < dst.planes(); ++plane) {
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    for (int n = 0; n < width_px; ++n, out += stride) {
      const int first_x = (x + n) * layer.stride_px,
                end_x = std::min(first_x + layer.kernel_px, in.layer_width_px);
      std::fill_n(out, stride, -std::numeric_limits<float>::infinity());
      for (int v = first_y; v < end_y; ++v) {
        const float* pixel = in.At(v, first_x) + plane * in.plane_stride;
        for (int u = first_x; u < end_x; ++u, pixel += stride) {
          for (int c = 0; c < stride; ++c) out[c] = std::max(out[c], pixel[c]);
        }
      }
    }
  }
}

// Where pixel `at` of an axis of `side` pixels lies between two of an axis of `other_side`.
Between PlaceIn(int other_side, int at, int side) {
  const double place = std::max((at + 0.5) * other_side / side - 0.5, 0.0);
  const int low = static_cast<int>(place);
  return {low, std::min(low + 1, other_side - 1), static_cast<float>(place - low)};
}

void AddResizedRow(const Layer& /*layer*/, std::span<const Tensor> src, const Tensor& dst, int y,
                   int x, int width_px) {
  const Tensor &first = src[0], &second = src[1];
  const int stride = dst.pixel_stride;
  const Between v = PlaceIn(second.layer_height_px, y, dst.layer_height_px);
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const float* in = first.At(y, x) + plane * first.plane_stride;
    const float* top = second.At(v.low, 0) + plane * second.plane_stride;
    const float* bottom = second.At(v.high, 0) + plane * second.plane_stride;
    float* out = dst.At(y, x) + plane * dst.plane_stride;
    for (int n = 0; n < width_px; ++n, in += stride, out += stride) {
      const Between h = PlaceIn(second.layer_width_px, x + n, dst.layer_width_px);
      const ptrdiff_t left = ptrdiff_t{1} * h.low * stride, right = ptrdiff_t{1} * h.high * stride;
      for (int c = 0; c < stride; ++c) {
        const float a = top[left + c] + (top[right + c] - top[left + c]) * h.weight;
        const float b = bottom[left + c] + (bottom[right + c] - bottom[left + c]) * h.weight;
        out[c] = in[c] + (a + (b - a) * v.weight);
      }
    }
  }
}

RowFunction RowFunctionOf(Op op) {
  switch (op) {
    case Op::kPixelShuffle:
      return &PixelShuffleRow;
    case Op::kResizeNearest:
      return &NearestRow;
    case Op::kResizeBilinear:
      return &BilinearRow;
    case Op::kAdd:
      return &CombineRow<false>;
    case Op::kMul:
      return &CombineRow<true>;
    case Op::kConcat:
      return &ConcatRow;
    case Op::kSlice:
      return &SliceRow;
    case Op::kCrop:
    case Op::kActivation:
      return &CropRow;
    case Op::kPad:
      return &PadRow;
    case Op::kAffine:
      return &AffineRow;
    case Op::kGroupNorm:
      return &GroupNormRow;
    case Op::kGridToWindows:
      return &GridRow<true>;
    case Op::kWindowsToGrid:
      return &GridRow<false>;
    case Op::kMaxPool:
      return &MaxPoolRow;
    case Op::kAddResized:
      return &AddResizedRow;
    default:
      return nullptr;
  }
}

class ElementwiseKernel final : public LayerKernel {
 public:
  ElementwiseKernel(const Layer& layer, Isa isa)  // its weights are a handful, if any
      : layer_(layer), row_function_(RowFunctionOf(layer.op)), curve_(CurveFunctionFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      row_function_(layer_, src, dst, y, rows.x, rows.width);
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

 private:
  const Layer layer_;
  const RowFunction row_function_;
  const CurveFunction curve_;
};

}  // namespace

bool ElementwiseSupports(const Layer& layer) { return RowFunctionOf(layer.op) != nullptr; }

std::unique_ptr<LayerKernel> MakeElementwise(const Layer& layer, Isa isa) {
  return std::make_unique<ElementwiseKernel>(layer, isa);
}

}  // namespace upscaled::cpu
