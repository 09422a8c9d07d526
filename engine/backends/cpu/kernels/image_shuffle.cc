#include "engine/backends/cpu/kernels/image_shuffle.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/image_shuffle.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {

// To RGB of twice the size: source pixels of 16 floats, of which 0, 4, 8 and 1, 5, 9 are two pixels
// of the row, each with one of `added` if that is not null.
void ShuffleTwiceRgb(const float* HWY_RESTRICT src, const float* HWY_RESTRICT added,
                     float* HWY_RESTRICT dst, size_t pixels) {
  constexpr size_t kAdded = 3, kShuffled = 6;
  size_t n = 0;
#if HWY_MAX_BYTES >= 32
  namespace hn = hwy::HWY_NAMESPACE;
  // Vectors read and write more than they need to, up to two pixels further.
  const hn::FixedTag<float, 8> d;
  alignas(32) constexpr int32_t kLow[] = {0, 4, 0, 1, 5, 0, 0, 0};
  alignas(32) constexpr int32_t kHigh[] = {0, 0, 4, 0, 0, 5, 0, 0};  // from the fourth float on
  alignas(32) constexpr int32_t kTwice[] = {0, 1, 2, 0, 1, 2, 0, 0};
  const hn::RebindToSigned<decltype(d)> di;
  const auto low = hn::SetTableIndices(d, kLow), high = hn::SetTableIndices(d, kHigh);
  const auto twice = hn::SetTableIndices(d, kTwice);
  const auto is_high = hn::RebindMask(d, hn::Gt(hn::Load(di, kHigh), hn::Zero(di)));
  for (; n + 2 < pixels; ++n) {
    const float* const from = src + n * kPlaneChannels;
    auto v = hn::IfThenElse(is_high, hn::TableLookupLanes(hn::LoadU(d, from + 4), high),
                            hn::TableLookupLanes(hn::LoadU(d, from), low));
    if (added != nullptr) {
      v = hn::Add(v, hn::TableLookupLanes(hn::LoadU(d, added + n * kAdded), twice));
    }
    hn::StoreU(v, d, dst + n * kShuffled);
  }
#endif
  for (; n < pixels; ++n) {
    for (size_t i = 0; i < kShuffled; ++i) {
      const float value = src[n * kPlaneChannels + i % kAdded * 4 + i / kAdded];
      dst[n * kShuffled + i] = added != nullptr ? value + added[n * kAdded + i % kAdded] : value;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/base/int_math.h"
#include "engine/image/image.h"
#include "engine/model/limits.h"

namespace upscaled::cpu {
namespace {

using TwiceRgbFunction = void (*)(const float* src, const float* added, float* dst, size_t pixels);

TwiceRgbFunction TwiceRgbFunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, ShuffleTwiceRgb) }

// Where in a source pixel each value lies that it gives to one row of the image.
using Offsets = std::array<size_t, kMaxFactor * kMaxInterleavedChannels>;

class ImageShuffleKernel final : public LayerKernel {
 public:
  ImageShuffleKernel(const Layer& layer, Isa isa)  // it has no weights
      : layer_(layer),
        curve_(CurveFunctionFor(isa)),
        twice_rgb_(TwiceRgbFunctionFor(isa)),
        is_twice_rgb_(layer.factor == 2 && layer.out_channels == kRgbChannels) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      RunRow(src, dst, y, rows.x, rows.right());
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);  // nothing was added then
    }
  }

 private:
  // Columns [first, end).
  void RunRow(std::span<const Tensor> src, const Tensor& dst, int y, int first, int end) const {
    const int f = layer_.factor;
    const Offsets offsets = OffsetsOf(src[0], y % f);
    // The whole source pixels, if what is added lies as they do.
    const bool aligned = src.size() == 1 || layer_.added_factor == f;
    const int whole = aligned ? std::min(RoundUp(first, f), end) : end;
    const int count = (end - whole) / f;
    RunColumns(src, offsets, dst, y, first, whole);
    const float* const added = src.size() > 1 ? AddedAt(src[1], y, whole) : nullptr;
    const float* const from = src[0].At(y / f, whole / f);
    if (is_twice_rgb_) {
      twice_rgb_(from + offsets[0], added, dst.At(y, whole), count);
    } else {
      ShufflePixels(from, src[0].pixel_stride, offsets, added, dst.At(y, whole), count);
    }
    RunColumns(src, offsets, dst, y, whole + count * f, end);
  }

  // The same, column by column.
  void RunColumns(std::span<const Tensor> src, const Offsets& offsets, const Tensor& dst, int y,
                  int first, int end) const {
    const int f = layer_.factor, channels = layer_.out_channels;
    for (int x = first; x < end; ++x) {
      const float* const from = src[0].At(y / f, x / f);
      float* const to = dst.At(y, x);
      for (int c = 0; c < channels; ++c) to[c] = from[offsets[x % f * channels + c]];
      if (src.size() == 1) continue;
      const float* const added = AddedAt(src[1], y, x);
      for (int c = 0; c < channels; ++c) to[c] += added[c];
    }
  }

  // Whole source pixels, each with one of the added image.
  void ShufflePixels(const float* src, int src_stride, const Offsets& offsets, const float* added,
                     float* dst, int count) const {
    const int channels = layer_.out_channels, values = layer_.factor * channels;
    for (; count > 0; --count, src += src_stride, dst += values) {
      for (int i = 0; i < values; ++i) dst[i] = src[offsets[i]];
      if (added == nullptr) continue;
      for (int i = 0; i < values; i += channels) {
        for (int c = 0; c < channels; ++c) dst[i + c] += added[c];
      }
      added += channels;
    }
  }

  const float* AddedAt(const Tensor& added, int y, int x) const {
    const int f = layer_.added_factor, crop = layer_.crop_px;
    return added.At(y / f + crop, x / f + crop);
  }

  Offsets OffsetsOf(const Tensor& src, int phase_y) const {
    const int f = layer_.factor, channels = layer_.out_channels;
    Offsets offsets;
    for (int i = 0; i < f * channels; ++i) {
      const int c = (i % channels * f + phase_y) * f + i / channels;
      offsets[i] = src.blocked() ? c / kPlaneChannels * src.plane_stride + c % kPlaneChannels : c;
    }
    return offsets;
  }

  const Layer layer_;
  const CurveFunction curve_;
  const TwiceRgbFunction twice_rgb_;
  const bool is_twice_rgb_;
};

}  // namespace

bool ImageShuffleSupports(const Layer& layer) {
  return layer.op == Op::kPixelShuffle && layer.out_channels <= kMaxInterleavedChannels;
}

std::unique_ptr<LayerKernel> MakeImageShuffle(const Layer& layer, Isa isa) {
  return std::make_unique<ImageShuffleKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
