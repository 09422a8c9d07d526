// Both kernels gather a pixel's channels side by side first, as heads are no whole planes.
//
// Products: each query meets the vectors of its head's keys. The next query overwrites the values
// that a vector stores behind them. Then all is moved to the planes.
// Attention: a plane of 16 results is a product of a small matrix with the values of the heads that
// the plane touches; weights of other heads are zero. Four pixels share its rows. The matrices are
// made once a call: softmax of the means, as cosines.
#include "engine/backends/cpu/kernels/channel_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/channel_attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
constexpr int kPixels = 4;

void MultiplyPixel(const ChannelProductsArgs& args) {
  const Tag d;
  float* HWY_RESTRICT dst = args.dst;
  const float* keys = args.pixel + args.channels;
  for (int query = 0; query < args.channels; ++query, dst += args.depth) {
    if (query > 0 && query % args.depth == 0) keys += args.depth;
    const Vec q = hn::Set(d, args.pixel[query]);
    for (int key = 0; key < args.depth; key += kLanes) {
      hn::StoreU(hn::Mul(q, hn::LoadU(d, keys + key)), d, dst + key);
    }
  }
  for (int c = 0; c < 2 * args.channels; c += kLanes) {
    const Vec v = hn::LoadU(d, args.pixel + c);
    hn::StoreU(hn::Mul(v, v), d, dst + c);
  }
}

// A row of scores becomes its softmax. Behind the row lie very negative values.
void SoftmaxRow(float* HWY_RESTRICT row, int count) {
  const Tag d;
  Vec largest = hn::LoadU(d, row);
  for (int i = kLanes; i < count; i += kLanes) largest = hn::Max(largest, hn::LoadU(d, row + i));
  largest = hn::MaxOfLanes(d, largest);
  Vec sum = hn::Zero(d);
  for (int i = 0; i < count; i += kLanes) {
    const Vec weight = curves::Exp(hn::Sub(hn::LoadU(d, row + i), largest));
    hn::StoreU(weight, d, row + i);
    sum = hn::Add(sum, weight);
  }
  const Vec factor = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
  for (int i = 0; i < count; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), factor), d, row + i);
  }
}

// `kCount` adjacent pixels of one plane.
template <int kCount>
HWY_INLINE void MixPixels(const ChannelMixArgs& args, int x) {
  const Tag d;
  constexpr int kVectors = kPlaneChannels / kLanes;
  Vec sums[kCount][kVectors];
  for (int i = 0; i < kCount; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  }
  const float* HWY_RESTRICT weights = args.weights;
  const float* HWY_RESTRICT values = args.values + static_cast<size_t>(x) * args.value_stride;
  for (int c = 0; c < args.value_count; ++c, weights += kPlaneChannels) {
    for (int i = 0; i < kCount; ++i) {
      const Vec value = hn::Set(d, values[static_cast<size_t>(i) * args.value_stride + c]);
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = hn::MulAdd(value, hn::LoadU(d, weights + v * kLanes), sums[i][v]);
      }
    }
  }
  for (int i = 0; i < kCount; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[i][v], d,
                 args.dst_row + static_cast<size_t>(x + i) * kPlaneChannels + v * kLanes);
    }
  }
}

void MixRow(const ChannelMixArgs& args) {
  int x = 0;
  for (; x + kPixels <= args.width_px; x += kPixels) MixPixels<kPixels>(args, x);
  for (; x < args.width_px; ++x) MixPixels<1>(args, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

using ProductsFunction = void (*)(const ChannelProductsArgs& args);
using SoftmaxFunction = void (*)(float* row, int count);
using MixFunction = void (*)(const ChannelMixArgs& args);

ProductsFunction ProductsFunctionFor(Isa isa){
    UPSCALED_RETURN_ADDRESS_FOR(isa, MultiplyPixel)} SoftmaxFunction
    SoftmaxFunctionFor(Isa isa){UPSCALED_RETURN_ADDRESS_FOR(isa, SoftmaxRow)} MixFunction
    MixFunctionFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, MixRow)
}

constexpr int kSpareFloats = 2 * kPlaneChannels;  // read and written behind the last channel
constexpr float kNoScore = -1e30f;                // its exponential is zero next to any score

// Copies the planes from `first` on that hold `channels` channels.
void LoadPlanes(const Tensor& src, const float* pixel, int first, int planes, float* dst) {
  pixel += first * src.plane_stride;
  for (int plane = 0; plane < planes; ++plane, pixel += src.plane_stride) {
    std::copy_n(pixel, kPlaneChannels, dst + static_cast<size_t>(plane) * kPlaneChannels);
  }
}

class ChannelProductsKernel final : public LayerKernel {
 public:
  ChannelProductsKernel(const Layer& layer, Isa isa)
      : layer_(WithoutWeights(layer)),
        multiply_(ProductsFunctionFor(isa)),
        curve_(CurveFunctionFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    float* const pixel = scratch;
    float* const products = pixel + PixelFloats();
    const int channels = layer_.in_channels / 3;
    const ChannelProductsArgs args{
        .pixel = pixel, .channels = channels, .depth = channels / layer_.groups, .dst = products};
    std::fill_n(pixel, PixelFloats(), 0.0f);
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int x = rows.x; x < rows.right(); ++x) {
        LoadPlanes(src[0], src[0].At(y, x), 0, src[0].planes(), pixel);
        multiply_(args);
        std::fill_n(products + layer_.out_channels, kSpareFloats, 0.0f);
        float* to = dst.At(y, x);
        for (int plane = 0; plane < dst.planes(); ++plane, to += dst.plane_stride) {
          std::copy_n(products + static_cast<size_t>(plane) * kPlaneChannels, kPlaneChannels, to);
        }
      }
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    return size_t{1} * PixelFloats() + RoundUp(layer_.out_channels, kPlaneChannels) + kSpareFloats;
  }

 private:
  int PixelFloats() const { return RoundUp(layer_.in_channels, kPlaneChannels) + kSpareFloats; }

  const Layer layer_;
  const ProductsFunction multiply_;
  const CurveFunction curve_;
};

class ChannelAttentionKernel final : public LayerKernel {
 public:
  ChannelAttentionKernel(const Layer& layer, Isa isa)
      : layer_(layer),
        softmax_(SoftmaxFunctionFor(isa)),
        mix_(MixFunctionFor(isa)),
        curve_(CurveFunctionFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    float* const weights = scratch;  // [plane][value][lane]
    float* const row = weights + size_t{1} * dst.planes() * MaxValues() * kPlaneChannels;
    float* const values = row + RoundUp(Depth(), kPlaneChannels);
    PackWeights(src[1], row, weights);
    const int first_plane = FirstValue() / kPlaneChannels,
              value_planes = src[0].planes() - first_plane;
    const int stride = value_planes * kPlaneChannels;
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int x = rows.x; x < rows.right(); x += kRunPx) {
        const int width = std::min(kRunPx, rows.right() - x);
        for (int i = 0; i < width; ++i) {
          LoadPlanes(src[0], src[0].At(y, x + i), first_plane, value_planes,
                     values + size_t{1} * i * stride);
        }
        for (int plane = 0; plane < dst.planes(); ++plane) {
          const ChannelRange range = ValuesOf(plane);
          mix_({.values = values + FirstValue() % kPlaneChannels + range.first,
                .value_stride = stride,
                .value_count = range.count,
                .width_px = width,
                .weights = weights + size_t{1} * plane * MaxValues() * kPlaneChannels,
                .dst_row = dst.At(y, x) + plane * dst.plane_stride});
        }
      }
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    const size_t planes = RoundUp(layer_.out_channels, kPlaneChannels) / kPlaneChannels;
    return planes * MaxValues() * kPlaneChannels + RoundUp(Depth(), kPlaneChannels) +
           size_t{1} * kRunPx *
               (RoundUp(layer_.in_channels, kPlaneChannels) -
                FirstValue() / kPlaneChannels * kPlaneChannels);
  }
  size_t WeightBytes() const override { return layer_.groups * sizeof(float); }

 private:
  static constexpr int kRunPx = 16;

  // Values by their place among all.
  struct ChannelRange {
    int first, count;
  };

  int Depth() const { return layer_.out_channels / layer_.groups; }
  int FirstValue() const { return 2 * layer_.out_channels; }
  // The values of the heads that a plane of results touches.
  ChannelRange ValuesOf(int plane) const {
    const int first = plane * kPlaneChannels;
    const int last = std::min(first + kPlaneChannels, layer_.out_channels) - 1;
    const int begin = first / Depth() * Depth(), end = (last / Depth() + 1) * Depth();
    return {begin, end - begin};
  }
  int MaxValues() const { return 2 * Depth() + kPlaneChannels; }

  void PackWeights(const Tensor& means, float* row, float* weights) const {
    const int channels = layer_.out_channels, depth = Depth();
    const float* const from = means.At(0, 0);
    const auto mean = [&](size_t i) {
      return double{from[means.ChannelOffset(static_cast<int>(i))]};
    };
    const size_t squares = size_t{1} * channels * depth;
    const size_t plane_floats = size_t{1} * MaxValues() * kPlaneChannels;
    std::fill_n(weights, RoundUp(channels, kPlaneChannels) / kPlaneChannels * plane_floats, 0.0f);
    for (int query = 0; query < channels; ++query) {
      const int first = query - query % depth;
      std::fill_n(row, RoundUp(depth, kPlaneChannels), kNoScore);
      for (int key = 0; key < depth; ++key) {
        const double length =
            std::sqrt(mean(squares + query) * mean(squares + channels + first + key));
        row[key] = static_cast<float>(layer_.weights[query / depth] *
                                      mean(size_t{1} * query * depth + key) /
                                      std::max(length, kMinChannelNorm));
      }
      softmax_(row, RoundUp(depth, kPlaneChannels));
      const int plane = query / kPlaneChannels;
      float* to = weights + plane * plane_floats +
                  static_cast<size_t>(first - ValuesOf(plane).first) * kPlaneChannels +
                  query % kPlaneChannels;
      for (int key = 0; key < depth; ++key, to += kPlaneChannels) *to = row[key];
    }
  }

  const Layer layer_;
  const SoftmaxFunction softmax_;
  const MixFunction mix_;
  const CurveFunction curve_;
};

}  // namespace

bool ChannelProductsSupports(const Layer& layer) {
  return layer.op == Op::kChannelProducts && layer.in_channels > kMaxInterleavedChannels &&
         layer.out_channels > kMaxInterleavedChannels;
}

std::unique_ptr<LayerKernel> MakeChannelProducts(const Layer& layer, Isa isa) {
  return std::make_unique<ChannelProductsKernel>(layer, isa);
}

bool ChannelAttentionSupports(const Layer& layer) {
  return layer.op == Op::kChannelAttention && layer.out_channels > kMaxInterleavedChannels;
}

std::unique_ptr<LayerKernel> MakeChannelAttention(const Layer& layer, Isa isa) {
  return std::make_unique<ChannelAttentionKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
