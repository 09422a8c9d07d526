#include "engine/image/convert.h"

#include <algorithm>
#include <cstring>

#include "engine/base/aligned_buffer.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/full_scale.h"
#include "engine/image/luma.h"

namespace upscaled {
namespace {

// --- Depth -------------------------------------------------------------------------------------

float ToUnit(uint8_t v) { return v / 255.0f; }
float ToUnit(uint16_t v) { return v / 65535.0f; }

// NaN becomes 0.
template <typename Int>
Int FromUnit(float v, float most) {
  return static_cast<Int>(std::min(std::max(0.0f, v * most + 0.5f), most));
}

void ConvertSample(uint8_t src, uint16_t& dst) { dst = src * 257; }
void ConvertSample(uint16_t src, uint8_t& dst) { dst = (src + 128u) / 257; }
void ConvertSample(uint8_t src, float& dst) { dst = ToUnit(src); }
void ConvertSample(uint16_t src, float& dst) { dst = ToUnit(src); }
void ConvertSample(float src, uint8_t& dst) { dst = FromUnit<uint8_t>(src, 255); }
void ConvertSample(float src, uint16_t& dst) { dst = FromUnit<uint16_t>(src, 65535); }

template <typename Src, typename Dst>
void ConvertDepth(const uint8_t* src, uint8_t* dst, size_t count) {
  if constexpr (std::is_same_v<Src, Dst>) {
    std::memcpy(dst, src, count * sizeof(Src));
  } else {
    const Src* from = reinterpret_cast<const Src*>(src);
    Dst* to = reinterpret_cast<Dst*>(dst);
    for (size_t i = 0; i < count; ++i) ConvertSample(from[i], to[i]);
  }
}

// --- Channels ----------------------------------------------------------------------------------

// `value` before white, seen through `alpha`.
template <typename T>
T OverWhite(T value, T alpha) {
  if constexpr (std::is_same_v<T, float>) return value * alpha + (1.0f - alpha);
  const uint64_t full = static_cast<uint64_t>(kFullScale<T>);
  return static_cast<T>(
      (uint64_t(value) * uint64_t(alpha) + full * (full - uint64_t(alpha)) + full / 2) / full);
}

template <typename T, int kFrom, int kTo>
void ConvertPixel(const T* src, T* dst) {
  constexpr bool kFromAlpha = kFrom % 2 == 0, kToAlpha = kTo % 2 == 0;
  constexpr int kColours = kFromAlpha ? kFrom - 1 : kFrom;
  T colour[3];
  for (int c = 0; c < kColours; ++c)
    colour[c] = kFromAlpha && !kToAlpha ? OverWhite(src[c], src[kFrom - 1]) : src[c];
  if constexpr (kColours == 1) colour[1] = colour[2] = colour[0];
  if constexpr (kTo >= 3) {
    std::copy(colour, colour + 3, dst);
  } else {
    dst[0] = kColours == 1 ? colour[0] : Luma(colour[0], colour[1], colour[2]);
  }
  if constexpr (kToAlpha) dst[kTo - 1] = kFromAlpha ? src[kFrom - 1] : kFullScale<T>;
}

template <typename T, int kFrom, int kTo>
void ConvertChannelsRow(const uint8_t* src, uint8_t* dst, int width) {
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(dst);
  for (int x = 0; x < width; ++x) ConvertPixel<T, kFrom, kTo>(from + x * kFrom, to + x * kTo);
}

// --- Choice ------------------------------------------------------------------------------------

using DepthFunction = void (*)(const uint8_t* src, uint8_t* dst, size_t count);
using ChannelsFunction = void (*)(const uint8_t* src, uint8_t* dst, int width);

template <typename Src>
constexpr DepthFunction kDepthTo[] = {ConvertDepth<Src, uint8_t>, ConvertDepth<Src, uint16_t>,
                                      ConvertDepth<Src, float>};

DepthFunction ChooseDepth(SampleType from, SampleType to) {
  const int i = static_cast<int>(to);
  return from == SampleType::kU8    ? kDepthTo<uint8_t>[i]
         : from == SampleType::kU16 ? kDepthTo<uint16_t>[i]
                                    : kDepthTo<float>[i];
}

template <typename T, int kFrom>
constexpr ChannelsFunction kChannelsTo[] = {
    ConvertChannelsRow<T, kFrom, 1>, ConvertChannelsRow<T, kFrom, 2>,
    ConvertChannelsRow<T, kFrom, 3>, ConvertChannelsRow<T, kFrom, 4>};

template <typename T>
ChannelsFunction ChooseChannels(int from, int to) {
  constexpr const ChannelsFunction* kRows[] = {kChannelsTo<T, 1>, kChannelsTo<T, 2>,
                                               kChannelsTo<T, 3>, kChannelsTo<T, 4>};
  return kRows[from - 1][to - 1];
}

ChannelsFunction ChooseChannels(SampleType type, int from, int to) {
  return type == SampleType::kU8    ? ChooseChannels<uint8_t>(from, to)
         : type == SampleType::kU16 ? ChooseChannels<uint16_t>(from, to)
                                    : ChooseChannels<float>(from, to);
}

constexpr int kBandRows = 16;

class ConvertedRows final : public RowSource {
 public:
  ConvertedRows(RowSource& source, const ImageSpec& spec) : source_(source), spec_(spec) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    if (source_.spec() == spec_) return source_.ReadRows(rows);
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    ImageSpec band_spec = source_.spec();
    band_spec.height_px = std::min(kBandRows, rows.height_px());
    band_.Reserve(band_spec.row_bytes() * band_spec.height_px);
    for (int y = 0; y < rows.height_px(); y += band_spec.height_px) {
      band_spec.height_px = std::min(kBandRows, rows.height_px() - y);
      const MutableImageView band(band_.data(), band_spec,
                                  static_cast<ptrdiff_t>(band_spec.row_bytes()));
      RETURN_IF_ERROR(source_.ReadRows(band));
      ConvertPixels(band, rows.Crop({0, y, spec_.width_px, band_spec.height_px}));
      next_row_ += band_spec.height_px;
    }
    return absl::OkStatus();
  }

 private:
  RowSource& source_;
  const ImageSpec spec_;
  AlignedBuffer<uint8_t> band_;
  int next_row_ = 0;
};

}  // namespace

void ConvertPixels(ImageView src, MutableImageView dst) {
  const ImageSpec& from = src.spec;
  const ImageSpec& to = dst.spec;
  const DepthFunction convert_depth = ChooseDepth(from.type, to.type);
  if (from.channels == to.channels) {
    const size_t samples = static_cast<size_t>(from.width_px) * from.channels;
    for (int y = 0; y < from.height_px; ++y) convert_depth(src.row(y), dst.row(y), samples);
    return;
  }
  // Channels at the source's depth first: it loses nothing visible in the result.
  const ChannelsFunction convert_channels = ChooseChannels(from.type, from.channels, to.channels);
  const size_t samples = static_cast<size_t>(to.width_px) * to.channels;
  AlignedBuffer<uint8_t> row(samples * SampleBytes(from.type));
  for (int y = 0; y < from.height_px; ++y) {
    convert_channels(src.row(y), row.data(), from.width_px);
    convert_depth(row.data(), dst.row(y), samples);
  }
}

std::unique_ptr<RowSource> ConvertRows(RowSource& source, const ImageSpec& spec) {
  return std::make_unique<ConvertedRows>(source, spec);
}

RowStage PlanConversion(const ImageSpec& source, const ImageSpec& result) {
  // The band, and ConvertPixels' row of up to four channels in it.
  const size_t bytes =
      kBandRows * source.row_bytes() + size_t{4} * source.width_px * SampleBytes(source.type);
  return {{.source = source, .result = result, .memory_bytes = source == result ? 0 : bytes},
          [result](RowSource& rows) { return ConvertRows(rows, result); }};
}

}  // namespace upscaled
