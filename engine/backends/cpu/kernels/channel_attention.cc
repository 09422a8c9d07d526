// All kernels gather a pixel's channels side by side first, as heads are no whole planes.
//
// Products: each query meets the vectors of its head's keys. The next query overwrites a vector's
// values behind them. Then all is moved to the planes.
// Attention: a plane of 16 results is a product of a small matrix with the values of the heads that
// the plane touches; weights of other heads are zero. Four pixels share its rows. The matrices are
// made once a call: softmax of the means, as cosines.
// Attention of parts: a part's sums, in the order of its pixels, and then the same for each pixel.
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

void AddPixel(const ChannelSumsArgs& args) {
  const Tag d;
  float* HWY_RESTRICT row = args.products;
  const float* keys = args.pixel + args.channels;
  for (int query = 0; query < args.channels; ++query, row += args.row_stride) {
    if (query > 0 && query % args.depth == 0) keys += args.depth;
    const Vec q = hn::Set(d, args.pixel[query]);
    for (int key = 0; key < args.depth; key += kLanes) {
      hn::StoreU(hn::MulAdd(q, hn::LoadU(d, keys + key), hn::LoadU(d, row + key)), d, row + key);
    }
  }
  for (int c = 0; c < 2 * args.channels; c += kLanes) {
    const Vec v = hn::LoadU(d, args.pixel + c);
    hn::StoreU(hn::MulAdd(v, v, hn::LoadU(d, args.squares + c)), d, args.squares + c);
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

constexpr ChannelAttentionFunctions kChannelFunctions = {&MultiplyPixel, &AddPixel, &SoftmaxRow,
                                                         &MixRow};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/graph/windows.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

const ChannelAttentionFunctions* ChannelFunctionsFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, kChannelFunctions)
}

constexpr int kSpareFloats = 2 * kPlaneChannels;  // read and written behind the last channel
constexpr float kNoScore = -1e30f;                // its exponential is zero next to any score

// Copies the planes of `channels` channels from `first` on.
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
        functions_(*ChannelFunctionsFor(isa)),
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
        functions_.multiply(args);
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
  const ChannelAttentionFunctions& functions_;
  const CurveFunction curve_;
};

// The matrices from a pixel's values to its results, a plane at a time.
class ValueMix {
 public:
  ValueMix(const Layer& layer, Isa isa) : layer_(layer), functions_(*ChannelFunctionsFor(isa)) {}

  // The matrices of all planes, [plane][value][lane], and room for a row of scores behind them.
  size_t WeightFloats() const {
    return planes() * PlaneFloats() + RoundUp(Depth(), kPlaneChannels);
  }
  // The values of a pixel, from the plane of the first one on.
  int ValueFloats() const {
    return RoundUp(layer_.in_channels, kPlaneChannels) - FirstPlane() * kPlaneChannels;
  }
  int Depth() const { return layer_.out_channels / layer_.groups; }

  // Sets the matrices by the cosine of each query and each key of its head.
  template <typename Cosine>
  void Pack(const Cosine& cosine, float* weights) const {
    float* const row = weights + planes() * PlaneFloats();
    const int depth = Depth();
    std::fill(weights, row, 0.0f);
    for (int query = 0; query < layer_.out_channels; ++query) {
      const int first = query - query % depth;
      std::fill_n(row, RoundUp(depth, kPlaneChannels), kNoScore);
      for (int key = 0; key < depth; ++key) {
        row[key] = static_cast<float>(layer_.weights[query / depth] * cosine(query, key));
      }
      functions_.softmax(row, RoundUp(depth, kPlaneChannels));
      const int plane = query / kPlaneChannels;
      float* to = weights + plane * PlaneFloats() +
                  static_cast<size_t>(first - ValuesOf(plane).first) * kPlaneChannels +
                  query % kPlaneChannels;
      for (int key = 0; key < depth; ++key, to += kPlaneChannels) *to = row[key];
    }
  }

  // `values`: scratch of ValueFloats() for each pixel.
  void Run(const Tensor& src, const float* weights, int y, int x, int width, float* values,
           const Tensor& dst) const {
    const int stride = ValueFloats();
    for (int i = 0; i < width; ++i) {
      LoadPlanes(src, src.At(y, x + i), FirstPlane(), stride / kPlaneChannels,
                 values + size_t{1} * i * stride);
    }
    for (int plane = 0; plane < dst.planes(); ++plane) {
      const ChannelRange range = ValuesOf(plane);
      functions_.mix({.values = values + FirstValue() % kPlaneChannels + range.first,
                      .value_stride = stride,
                      .value_count = range.count,
                      .width_px = width,
                      .weights = weights + plane * PlaneFloats(),
                      .dst_row = dst.At(y, x) + plane * dst.plane_stride});
    }
  }

 private:
  // Values by their place among all.
  struct ChannelRange {
    int first, count;
  };

  size_t planes() const { return CeilDiv(layer_.out_channels, kPlaneChannels); }
  size_t PlaneFloats() const { return size_t{1} * (2 * Depth() + kPlaneChannels) * kPlaneChannels; }
  int FirstValue() const { return 2 * layer_.out_channels; }
  int FirstPlane() const { return FirstValue() / kPlaneChannels; }
  // The values of the heads in a plane of results.
  ChannelRange ValuesOf(int plane) const {
    const int first = plane * kPlaneChannels;
    const int last = std::min(first + kPlaneChannels, layer_.out_channels) - 1;
    const int begin = first / Depth() * Depth(), end = (last / Depth() + 1) * Depth();
    return {begin, end - begin};
  }

  const Layer layer_;
  const ChannelAttentionFunctions& functions_;
};

class ChannelAttentionKernel final : public LayerKernel {
 public:
  ChannelAttentionKernel(const Layer& layer, Isa isa)
      : layer_(layer), mix_(layer, isa), curve_(CurveFunctionFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    float* const values = scratch + mix_.WeightFloats();
    PackMeans(src[1], scratch);
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int x = rows.x; x < rows.right(); x += kRunPx) {
        mix_.Run(src[0], scratch, y, x, std::min(kRunPx, rows.right() - x), values, dst);
      }
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    return mix_.WeightFloats() + size_t{1} * kRunPx * mix_.ValueFloats();
  }
  size_t WeightBytes() const override { return layer_.groups * sizeof(float); }

 private:
  static constexpr int kRunPx = 16;

  void PackMeans(const Tensor& means, float* weights) const {
    const int channels = layer_.out_channels, depth = mix_.Depth();
    const float* const from = means.At(0, 0);
    const auto mean = [&](size_t i) {
      return double{from[means.ChannelOffset(static_cast<int>(i))]};
    };
    const size_t squares = size_t{1} * channels * depth;
    mix_.Pack(
        [&](int query, int key) {
          const int first = query - query % depth;
          const double length =
              std::sqrt(mean(squares + query) * mean(squares + channels + first + key));
          return mean(size_t{1} * query * depth + key) / std::max(length, kMinChannelNorm);
        },
        weights);
  }

  const Layer layer_;
  const ValueMix mix_;
  const CurveFunction curve_;
};

class PartAttentionKernel final : public LayerKernel {
 public:
  PartAttentionKernel(const Layer& layer, Isa isa)
      : layer_(layer),
        mix_(layer, isa),
        functions_(*ChannelFunctionsFor(isa)),
        curve_(CurveFunctionFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    if (layer_.factor > 1) {
      for (int y = 0; y < layer_.factor; ++y) {
        for (int x = 0; x < layer_.factor; ++x) {
          RunPart(src[0], {x, y, src[0].layer_width_px, src[0].layer_height_px}, dst, rows,
                  scratch);
        }
      }
    } else {
      const Rect first = WindowAt(layer_, rows.x, rows.y);
      for (int y = first.y; y < rows.bottom(); y += first.height) {
        for (int x = first.x; x < rows.right(); x += first.width) {
          RunPart(src[0], {x, y, first.width, first.height}, dst, rows, scratch);
        }
      }
    }
    for (int y = rows.y; y < rows.bottom(); ++y) {
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    return mix_.WeightFloats() + mix_.ValueFloats() + PixelFloats() + ProductFloats() +
           SquareFloats();
  }
  size_t WeightBytes() const override { return layer_.groups * sizeof(float); }

 private:
  int Stride() const { return RoundUp(mix_.Depth(), kPlaneChannels); }
  size_t PixelFloats() const { return RoundUp(layer_.in_channels, kPlaneChannels) + kSpareFloats; }
  size_t ProductFloats() const { return size_t{1} * layer_.out_channels * Stride(); }
  size_t SquareFloats() const {
    return RoundUp(2 * layer_.out_channels, kPlaneChannels) + kSpareFloats;
  }

  // Every `factor`-th pixel of `part`, from its first one on, and as far as the layer goes.
  void RunPart(const Tensor& src, const Rect& part, const Tensor& dst, const Rect& rows,
               float* scratch) const {
    float* const values = scratch + mix_.WeightFloats();
    float* const pixel = values + mix_.ValueFloats();
    float* const products = pixel + PixelFloats();
    float* const squares = products + ProductFloats();
    const Rect whole = Intersect(part, {0, 0, src.layer_width_px, src.layer_height_px});
    AddPart(src, whole, pixel, products, squares);
    const int channels = layer_.out_channels, depth = mix_.Depth(), stride = Stride();
    const auto length = [&](int c) {
      return std::max(std::sqrt(double{squares[c]}), kMinChannelNorm);
    };
    mix_.Pack(
        [&](int query, int key) {
          const int first = query - query % depth;
          return double{products[size_t{1} * query * stride + key]} /
                 (length(query) * length(channels + first + key));
        },
        scratch);
    ForPixels(whole, [&](int y, int x) {
      const bool asked = Intersect(rows, {x, y, 1, 1}).Area() != 0;
      if (asked) mix_.Run(src, scratch, y, x, 1, values, dst);
    });
  }

  template <typename Function>
  void ForPixels(const Rect& part, const Function& function) const {
    for (int y = part.y; y < part.bottom(); y += layer_.factor) {
      for (int x = part.x; x < part.right(); x += layer_.factor) function(y, x);
    }
  }

  void AddPart(const Tensor& src, const Rect& part, float* pixel, float* products,
               float* squares) const {
    const ChannelSumsArgs args{.pixel = pixel,
                               .channels = layer_.out_channels,
                               .depth = mix_.Depth(),
                               .row_stride = Stride(),
                               .products = products,
                               .squares = squares};
    std::fill_n(pixel, PixelFloats(), 0.0f);
    std::fill_n(products, ProductFloats(), 0.0f);
    std::fill_n(squares, SquareFloats(), 0.0f);
    ForPixels(part, [&](int y, int x) {
      LoadPlanes(src, src.At(y, x), 0, src.planes(), pixel);
      functions_.add(args);
    });
  }

  const Layer layer_;
  const ValueMix mix_;
  const ChannelAttentionFunctions& functions_;
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

bool PartAttentionSupports(const Layer& layer) {
  return layer.op == Op::kPartAttention && layer.out_channels > kMaxInterleavedChannels;
}

std::unique_ptr<LayerKernel> MakePartAttention(const Layer& layer, Isa isa) {
  return std::make_unique<PartAttentionKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
