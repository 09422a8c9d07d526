// A result pixel at a time: where it lies follows from two offsets for each share of the channels,
// and whole planes of that share are blended from four pixels. Shares with an end within a plane,
// and images, are blended channel by channel. Positions count from the layer's corner, so tiles
// agree.
#include "engine/backends/cpu/kernels/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/sample.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/args.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void BlendPlanes(const SampleArgs& args) {
  const hn::CappedTag<float, kPlaneChannels> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::CappedTag<float, kPlaneChannels>()));
  const auto weight_x = hn::Set(d, args.weight_x), weight_y = hn::Set(d, args.weight_y);
  const auto blend = [](auto a, auto b, auto weight)
                         HWY_ATTR { return hn::MulAdd(hn::Sub(b, a), weight, a); };
  for (int plane = args.first_plane; plane < args.first_plane + args.planes; ++plane) {
    const size_t from = plane * args.src_plane_stride;
    float* HWY_RESTRICT dst = args.dst + plane * args.dst_plane_stride;
    for (int lane = 0; lane < kPlaneChannels; lane += kLanes) {
      const auto load = [&](const float* corner)
                            HWY_ATTR { return hn::LoadU(d, corner + from + lane); };
      const auto top = blend(load(args.top_left), load(args.top_right), weight_x);
      const auto bottom = blend(load(args.bottom_left), load(args.bottom_right), weight_x);
      hn::StoreU(blend(top, bottom, weight_y), d, dst + lane);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

using BlendFunction = void (*)(const SampleArgs& args);

BlendFunction BlendFunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, BlendPlanes) }

// A position between two pixels of an axis; NaN is the first one.
struct Place {
  Place(float at, int side)
      : low(static_cast<int>(at > 0 ? std::min(at, static_cast<float>(side - 1)) : 0.0f)),
        high(std::min(low + 1, side - 1)),
        weight(at > 0 ? std::min(at, static_cast<float>(side - 1)) - static_cast<float>(low)
                      : 0.0f) {}

  int low, high;
  float weight;  // of `high`
};

// Blends channels one by one.
void BlendChannels(const SampleArgs& args, const Tensor& src, const Tensor& dst, int first,
                   int channels) {
  const auto blend = [](float a, float b, float weight) { return a + (b - a) * weight; };
  for (int c = first; c < first + channels; ++c) {
    const size_t from = src.ChannelOffset(c);
    const float top = blend(args.top_left[from], args.top_right[from], args.weight_x);
    const float bottom = blend(args.bottom_left[from], args.bottom_right[from], args.weight_x);
    args.dst[dst.ChannelOffset(c)] = blend(top, bottom, args.weight_y);
  }
}

class SampleKernel final : public LayerKernel {
 public:
  SampleKernel(const Layer& layer, Isa isa)
      : layer_(layer), blend_(BlendFunctionFor(isa)), curve_(CurveFunctionFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int x = rows.x; x < rows.right(); ++x) SamplePixel(src[0], src[1], dst, x, y);
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

 private:
  void SamplePixel(const Tensor& src, const Tensor& offsets, const Tensor& dst, int x,
                   int y) const {
    const int f = layer_.factor, places = f * f, share = dst.channels / layer_.groups;
    const bool whole = dst.blocked() && share % kPlaneChannels == 0;
    const int from_x = x / f, from_y = y / f, corner = y % f * f + x % f;
    const float* offset = offsets.At(from_y, from_x);
    SampleArgs args{.dst = dst.At(y, x),
                    .src_plane_stride = src.plane_stride,
                    .dst_plane_stride = dst.plane_stride};
    if (dst.blocked()) ZeroLastPlane(dst, args.dst);
    for (int group = 0; group < layer_.groups; ++group) {
      const int dx = group * places + corner, dy = layer_.groups * places + dx;
      const Place h(static_cast<float>(from_x) + offset[offsets.ChannelOffset(dx)],
                    src.layer_width_px);
      const Place v(static_cast<float>(from_y) + offset[offsets.ChannelOffset(dy)],
                    src.layer_height_px);
      args.top_left = src.At(v.low, h.low);
      args.top_right = src.At(v.low, h.high);
      args.bottom_left = src.At(v.high, h.low);
      args.bottom_right = src.At(v.high, h.high);
      args.weight_x = h.weight;
      args.weight_y = v.weight;
      if (whole) {
        args.planes = share / kPlaneChannels;
        args.first_plane = group * args.planes;
        blend_(args);
      } else {
        BlendChannels(args, src, dst, group * share, share);
      }
    }
  }

  // Channels beyond the last are zero, so the next layer reads no garbage.
  static void ZeroLastPlane(const Tensor& dst, float* pixel) {
    const int used = dst.channels % kPlaneChannels;
    if (used == 0) return;
    float* last = pixel + (dst.planes() - 1) * dst.plane_stride;
    std::fill(last + used, last + kPlaneChannels, 0.0f);
  }

  const Layer layer_;
  const BlendFunction blend_;
  const CurveFunction curve_;
};

}  // namespace

bool SampleSupports(const Layer& layer) { return layer.op == Op::kSample; }

std::unique_ptr<LayerKernel> MakeSample(const Layer& layer, Isa isa) {
  return std::make_unique<SampleKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
