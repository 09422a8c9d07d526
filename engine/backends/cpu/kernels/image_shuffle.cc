// The source is planes of 16 channels or, of at most 4, interleaved as images are; the values that
// a source pixel gives to one row of the image lie factor^2 channels apart, or next to each other.
// RGB of two and four times the size, with the enlarged image or without, is made a source pixel at
// a time in vectors. Otherwise the added image comes in a loop of its own, while the row is in the
// nearest cache.
#include "engine/backends/cpu/kernels/image_shuffle.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/image_shuffle.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Channel c of the row's pixel dx is value 4 c + dx of plane 0.
void ShuffleRgb2(const float* HWY_RESTRICT src, size_t /*plane_stride*/,
                 const float* HWY_RESTRICT added, float* HWY_RESTRICT dst, size_t pixels) {
  constexpr size_t kAdded = 3, kShuffled = 6;
  size_t n = 0;
#if HWY_MAX_BYTES >= 32
  // Vectors read up to two pixels of `added` and write two floats more than they need to.
  const hn::FixedTag<float, 8> d;
  alignas(32) constexpr int32_t kLow[] = {0, 4, 0, 1, 5, 0, 0, 0};
  alignas(32) constexpr int32_t kHigh[] = {0, 0, 4, 0, 0, 5, 0, 0};  // from the fourth float on
  alignas(32) constexpr int32_t kIsHigh[] = {0, 0, 1, 0, 0, 1, 0, 0};
  alignas(32) constexpr int32_t kTwice[] = {0, 1, 2, 0, 1, 2, 0, 0};
  const hn::RebindToSigned<decltype(d)> di;
  const auto low = hn::SetTableIndices(d, kLow), high = hn::SetTableIndices(d, kHigh);
  const auto twice = hn::SetTableIndices(d, kTwice);
  const auto is_high = hn::RebindMask(d, hn::Gt(hn::Load(di, kIsHigh), hn::Zero(di)));
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

// Channel c of the row's pixel dx is value dx of plane c.
void ShuffleRgb4(const float* HWY_RESTRICT src, size_t plane_stride,
                 const float* HWY_RESTRICT added, float* HWY_RESTRICT dst, size_t pixels) {
  constexpr size_t kAdded = 3, kShuffled = 12;
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < pixels * kShuffled; ++i) {
    const size_t n = i / kShuffled, c = i % kAdded, dx = i % kShuffled / kAdded;
    const float value = src[n * kPlaneChannels + c * plane_stride + dx];
    dst[i] = added != nullptr ? value + added[n * kAdded + c] : value;
  }
#else
  const hn::FixedTag<float, 4> d;
  for (size_t n = 0; n < pixels; ++n, src += kPlaneChannels, dst += kShuffled) {
    auto r = hn::Load(d, src), g = hn::Load(d, src + plane_stride);
    auto b = hn::Load(d, src + 2 * plane_stride);
    if (added != nullptr) {
      r = hn::Add(r, hn::Set(d, added[0]));
      g = hn::Add(g, hn::Set(d, added[1]));
      b = hn::Add(b, hn::Set(d, added[2]));
      added += kAdded;
    }
    hn::StoreInterleaved3(r, g, b, d, dst);
  }
#endif
}

constexpr RgbShuffles kRgbShuffles = {&ShuffleRgb2, &ShuffleRgb4};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/base/check.h"
#include "engine/base/int_math.h"
#include "engine/image/image.h"
#include "engine/model/limits.h"

namespace upscaled::cpu {
namespace {

const RgbShuffles* RgbShufflesFor(Isa isa){UPSCALED_RETURN_ADDRESS_FOR(isa, kRgbShuffles)}

// Null without one.
RgbShuffle ChooseRgb(const Layer& layer, Isa isa) {
  if (layer.out_channels != kRgbChannels) return nullptr;
  const RgbShuffles& shuffles = *RgbShufflesFor(isa);
  return layer.factor == 2 ? shuffles.by_2 : layer.factor == 4 ? shuffles.by_4 : nullptr;
}

// The place in a source pixel of each of its values for one row of the image.
using Offsets = std::array<size_t, kMaxFactor * kMaxInterleavedChannels>;

// Whole source pixels. kValues, of each, at compile time, or 0: as `values` says.
template <int kValues>
void ShufflePixels(const float* src, int src_stride, const Offsets& offsets, int values, int count,
                   float* dst) {
  if (kValues > 0) values = kValues;
  for (; count > 0; --count, src += src_stride, dst += values) {
    for (int i = 0; i < values; ++i) dst[i] = src[offsets[i]];
  }
}

// To pixels [x, end) of a row; each of `added` is for `factor` of them, the first and the last
// perhaps for fewer.
void AddEnlarged(const float* added, int channels, int factor, int x, int end, float* dst) {
  for (int next = x - x % factor + factor; x < end; next += factor, added += channels) {
    for (const int last = std::min(next, end); x < last; ++x, dst += channels) {
      for (int c = 0; c < channels; ++c) dst[c] += added[c];
    }
  }
}

class ImageShuffleKernel final : public LayerKernel {
 public:
  ImageShuffleKernel(const Layer& layer, Isa isa)  // it has no weights
      : layer_(layer), curve_(CurveFunctionFor(isa)), rgb_(ChooseRgb(layer, isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    UPSCALED_CHECK(src.size() == 1 || layer_.activation == Activation::kNone);
    const bool adds = src.size() > 1;
    const bool adds_at_once = adds && rgb_ != nullptr && layer_.residual_factor == layer_.factor;
    for (int y = rows.y; y < rows.bottom(); ++y) {
      const Columns columns{rows.x, rows.right()};
      const Columns whole = Shuffle(src[0], adds_at_once ? &src[1] : nullptr, dst, y, columns);
      if (adds_at_once) {
        Add(src[1], dst, y, {columns.first, whole.first});
        Add(src[1], dst, y, {whole.end, columns.end});
      } else if (adds) {
        Add(src[1], dst, y, columns);
      }
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

 private:
  struct Columns {
    int first;
    int end;
  };

  // Returns those of whole source pixels, to which `added`, if not null, is added.
  Columns Shuffle(const Tensor& src, const Tensor* added, const Tensor& dst, int y,
                  Columns columns) const {
    const int f = layer_.factor, values = f * layer_.out_channels;
    const int first = std::min(RoundUp(columns.first, f), columns.end);
    const int count = (columns.end - first) / f;
    const Columns whole{first, first + count * f};
    const Offsets offsets = OffsetsOf(src, y % f);
    const float* const from = src.At(y / f, first / f);
    float* const to = dst.At(y, first);
    ShuffleColumns(src, offsets, dst, y, {columns.first, whole.first});
    if (rgb_ != nullptr) {
      const float* const image = added != nullptr ? AddedAt(*added, y, first) : nullptr;
      rgb_(from + offsets[0], src.plane_stride, image, to, count);
    } else {
      const auto shuffle = values == 9 ? &ShufflePixels<9> : &ShufflePixels<0>;
      shuffle(from, src.pixel_stride, offsets, values, count, to);
    }
    ShuffleColumns(src, offsets, dst, y, {whole.end, columns.end});
    return whole;
  }

  // Column by column.
  void ShuffleColumns(const Tensor& src, const Offsets& offsets, const Tensor& dst, int y,
                      Columns columns) const {
    const int f = layer_.factor, channels = layer_.out_channels;
    for (int x = columns.first; x < columns.end; ++x) {
      const float* const from = src.At(y / f, x / f);
      float* const to = dst.At(y, x);
      for (int c = 0; c < channels; ++c) to[c] = from[offsets[x % f * channels + c]];
    }
  }

  void Add(const Tensor& added, const Tensor& dst, int y, Columns columns) const {
    AddEnlarged(AddedAt(added, y, columns.first), layer_.out_channels, layer_.residual_factor,
                columns.first, columns.end, dst.At(y, columns.first));
  }

  const float* AddedAt(const Tensor& added, int y, int x) const {
    const int f = layer_.residual_factor, crop = layer_.crop_px;
    return added.At(y / f + crop, x / f + crop);
  }

  Offsets OffsetsOf(const Tensor& src, int phase_y) const {
    const int f = layer_.factor, channels = layer_.out_channels;
    Offsets offsets;
    for (int i = 0; i < f * channels; ++i) {
      offsets[i] = src.ChannelOffset((i % channels * f + phase_y) * f + i / channels);
    }
    return offsets;
  }

  const Layer layer_;
  const CurveFunction curve_;
  const RgbShuffle rgb_;  // or null
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
