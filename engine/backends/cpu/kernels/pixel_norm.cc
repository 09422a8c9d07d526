// A pixel at a time, with its channels a plane apart: three walks over its vectors, kept in the
// first-level cache, for the mean, for the mean square around it, and for the result. The means
// need only the pixel, so tiles agree.
#include "engine/backends/cpu/kernels/pixel_norm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/pixel_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/args.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using Vec = hn::Vec<Tag>;

// Calls function(vector of the pixel, its first channel, vector of 1 for existing channels).
template <typename Function>
HWY_INLINE void ForEachVector(const PixelNormArgs& args, const float* HWY_RESTRICT pixel,
                              Function function) {
  const Tag d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
  for (int plane = 0; plane < args.planes; ++plane, pixel += args.src_plane_stride) {
    const bool last = plane + 1 == args.planes;
    for (int lane = 0; lane < kPlaneChannels; lane += kLanes) {
      const Vec there = last ? hn::LoadU(d, args.last_plane + lane) : hn::Set(d, 1.0f);
      function(hn::LoadU(d, pixel + lane), plane * kPlaneChannels + lane, there);
    }
  }
}

void NormalisePixels(const PixelNormArgs& args) {
  const Tag d;
  const Vec channels = hn::Set(d, static_cast<float>(args.channels));
  for (int x = 0; x < args.width_px; ++x) {
    const float* HWY_RESTRICT src = args.src_row + static_cast<size_t>(x) * kPlaneChannels;
    float* HWY_RESTRICT dst = args.dst_row + static_cast<size_t>(x) * kPlaneChannels;
    Vec mean = hn::Zero(d);
    if (args.centred) {
      Vec sum = hn::Zero(d);
      ForEachVector(args, src,
                    [&](Vec v, int, Vec there) HWY_ATTR { sum = hn::MulAdd(v, there, sum); });
      mean = hn::Div(hn::SumOfLanes(d, sum), channels);
    }
    Vec squares = hn::Zero(d);
    ForEachVector(args, src, [&](Vec v, int, Vec there) HWY_ATTR {
      const Vec difference = hn::Mul(hn::Sub(v, mean), there);
      squares = hn::MulAdd(difference, difference, squares);
    });
    const Vec square =
        hn::Add(hn::Div(hn::SumOfLanes(d, squares), channels), hn::Set(d, args.epsilon));
    const Vec factor = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(square));
    ForEachVector(args, src, [&](Vec v, int channel, Vec) HWY_ATTR {
      const Vec normal = hn::Mul(hn::Sub(v, mean), factor);
      const Vec result = hn::MulAdd(normal, hn::LoadU(d, args.weights + channel),
                                    hn::LoadU(d, args.bias + channel));
      hn::StoreU(result, d,
                 dst + channel / kPlaneChannels * args.dst_plane_stride + channel % kPlaneChannels);
    });
  }
}

// Calls function(vector, where it lies, which of its lanes count) for `count` floats.
template <typename Function>
HWY_INLINE void ForEachPart(float* HWY_RESTRICT values, int count, Function function) {
  const Tag d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
  for (int i = 0; i < count; i += kLanes) {
    const auto counts = hn::FirstN(d, static_cast<size_t>(std::min(count - i, kLanes)));
    function(hn::LoadU(d, values + i), values + i, counts);
  }
}

// Normalises `count` floats in place.
HWY_INLINE void NormaliseShare(const PixelNormArgs& args, float* HWY_RESTRICT values, int count) {
  const Tag d;
  const Vec number = hn::Set(d, static_cast<float>(count));
  Vec mean = hn::Zero(d);
  if (args.centred) {
    Vec sum = hn::Zero(d);
    ForEachPart(values, count, [&](Vec v, float*, auto counts) HWY_ATTR {
      sum = hn::Add(sum, hn::IfThenElseZero(counts, v));
    });
    mean = hn::Div(hn::SumOfLanes(d, sum), number);
  }
  Vec squares = hn::Zero(d);
  ForEachPart(values, count, [&](Vec v, float*, auto counts) HWY_ATTR {
    const Vec difference = hn::IfThenElseZero(counts, hn::Sub(v, mean));
    squares = hn::MulAdd(difference, difference, squares);
  });
  const Vec square = hn::Add(hn::Div(hn::SumOfLanes(d, squares), number), hn::Set(d, args.epsilon));
  const Vec factor = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(square));
  ForEachPart(values, count, [&](Vec v, float* at, auto counts) HWY_ATTR {
    hn::StoreU(hn::IfThenElse(counts, hn::Mul(hn::Sub(v, mean), factor), v), d, at);
  });
}

// As NormalisePixels, but shares begin anywhere in a plane: the pixel is laid out in one piece.
void NormaliseShares(const PixelNormArgs& args) {
  const Tag d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
  for (int x = 0; x < args.width_px; ++x) {
    const float* HWY_RESTRICT src = args.src_row + static_cast<size_t>(x) * kPlaneChannels;
    float* HWY_RESTRICT dst = args.dst_row + static_cast<size_t>(x) * kPlaneChannels;
    for (int c = 0; c < args.planes * kPlaneChannels; c += kLanes) {
      const float* from = src + c / kPlaneChannels * args.src_plane_stride + c % kPlaneChannels;
      hn::StoreU(hn::LoadU(d, from), d, args.scratch + c);
    }
    for (int c = 0; c < args.channels; c += args.share) {
      NormaliseShare(args, args.scratch + c, args.share);
    }
    for (int c = 0; c < args.planes * kPlaneChannels; c += kLanes) {
      const Vec result = hn::MulAdd(hn::LoadU(d, args.scratch + c), hn::LoadU(d, args.weights + c),
                                    hn::LoadU(d, args.bias + c));
      hn::StoreU(result, d, dst + c / kPlaneChannels * args.dst_plane_stride + c % kPlaneChannels);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

using NormaliseFunction = void (*)(const PixelNormArgs& args);

NormaliseFunction NormalisePixelsFor(Isa isa){UPSCALED_RETURN_ADDRESS_FOR(isa, NormalisePixels)}

NormaliseFunction NormaliseSharesFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, NormaliseShares)
}

// Normalises an image, with its channels side by side.
void NormaliseInterleaved(const PixelNormArgs& args) {
  const float* src = args.src_row;
  float* dst = args.dst_row;
  const int share = args.share;
  for (int i = 0; i < args.width_px * args.channels; i += share, src += share, dst += share) {
    float mean = 0, square = 0;
    for (int c = 0; args.centred && c < share; ++c) mean += src[c];
    mean /= static_cast<float>(share);
    for (int c = 0; c < share; ++c) square += (src[c] - mean) * (src[c] - mean);
    const float factor = 1 / std::sqrt(square / static_cast<float>(share) + args.epsilon);
    const int first = i % args.channels;
    for (int c = 0; c < share; ++c) {
      dst[c] = (src[c] - mean) * factor * args.weights[first + c] + args.bias[first + c];
    }
  }
}

class PixelNormKernel final : public LayerKernel {
 public:
  PixelNormKernel(const Layer& layer, Isa isa)
      : layer_(layer),
        normalise_(layer.out_channels <= kMaxInterleavedChannels ? &NormaliseInterleaved
                   : layer.groups == 1                           ? NormalisePixelsFor(isa)
                                                                 : NormaliseSharesFor(isa)),
        curve_(CurveFunctionFor(isa)),
        weights_(layer.weights),
        bias_(layer.bias),
        last_plane_(kPlaneChannels, 0.0f) {
    const int channels = RoundUp(layer.out_channels, kPlaneChannels);
    weights_.resize(channels);
    bias_.resize(channels);
    std::fill_n(last_plane_.begin(), kPlaneChannels - (channels - layer.out_channels), 1.0f);
  }

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    PixelNormArgs args{.src_plane_stride = src[0].plane_stride,
                       .dst_plane_stride = dst.plane_stride,
                       .planes = dst.planes(),
                       .channels = dst.channels,
                       .share = dst.channels / layer_.groups,
                       .width_px = rows.width,
                       .weights = weights_.data(),
                       .bias = bias_.data(),
                       .last_plane = last_plane_.data(),
                       .epsilon = layer_.epsilon,
                       .centred = layer_.centred,
                       .scratch = scratch};
    for (int y = rows.y; y < rows.bottom(); ++y) {
      args.src_row = src[0].At(y, rows.x);
      args.dst_row = dst.At(y, rows.x);
      normalise_(args);
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    return layer_.groups == 1 ? 0 : weights_.size() + kPlaneChannels;
  }
  size_t WeightBytes() const override { return (weights_.size() + bias_.size()) * sizeof(float); }

 private:
  const Layer layer_;
  const NormaliseFunction normalise_;
  const CurveFunction curve_;
  std::vector<float> weights_, bias_, last_plane_;  // see PixelNormArgs
};

}  // namespace

bool PixelNormSupports(const Layer& layer) { return layer.op == Op::kPixelNorm; }

std::unique_ptr<LayerKernel> MakePixelNorm(const Layer& layer, Isa isa) {
  return std::make_unique<PixelNormKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
