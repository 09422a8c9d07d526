// Source: ITU-R BT.601, BT.709 and BT.2020 (non-constant luminance), quantisation of each.
#include "client/video/yuv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/check.h"

namespace upscaled::client {
namespace {

struct Plane {
  explicit Plane(Size size)
      : size(size), samples(static_cast<size_t>(size.width) * static_cast<size_t>(size.height)) {}
  float* row(int y) { return &samples[static_cast<size_t>(y) * static_cast<size_t>(size.width)]; }
  const float* row(int y) const {
    return &samples[static_cast<size_t>(y) * static_cast<size_t>(size.width)];
  }

  Size size;
  std::vector<float> samples;
};

// Luma's shares of red and blue.
struct Shares {
  float red, blue;
  float green() const { return 1 - red - blue; }
};

Shares SharesOf(Matrix matrix) {
  constexpr Shares kShares[] = {{0.299f, 0.114f}, {0.2126f, 0.0722f}, {0.2627f, 0.0593f}};
  return kShares[static_cast<size_t>(matrix)];
}

// Samples for 0 and 1 of luma, or for 0 and 1 of chroma. Chroma spans -0.5..0.5.
struct Quantisation {
  float zero, unit;
};

Quantisation LumaOf(const YuvFormat& format) {
  const float scale = static_cast<float>(1 << (format.depth - 8));
  if (format.full_range) return {0, static_cast<float>((1 << format.depth) - 1)};
  return {16 * scale, 219 * scale};
}

Quantisation ChromaOf(const YuvFormat& format) {
  const float scale = static_cast<float>(1 << (format.depth - 8));
  if (format.full_range) return {128 * scale, static_cast<float>((1 << format.depth) - 1)};
  return {128 * scale, 224 * scale};
}

// The sample next to a value that it can hold, halves to the even one, as lrint rounds. Compilers
// make vectors of this: next to 1.5 * 2^23 a float has no fraction.
template <typename Sample>
Sample Nearest(float value) {
  constexpr float kNoFraction = 12582912;
  return static_cast<Sample>(static_cast<int32_t>(value + kNoFraction - kNoFraction));
}

float Clamp(float value, float most) { return std::min(std::max(value, 0.0f), most); }

template <typename Sample>
void ReadSamples(const uint8_t* from, Quantisation levels, std::vector<float>& samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    Sample value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    samples[i] = (static_cast<float>(value) - levels.zero) / levels.unit;
  }
}

Plane ReadPlane(const uint8_t*& from, Size size, const YuvFormat& format, Quantisation levels) {
  Plane plane(size);
  format.depth > 8 ? ReadSamples<uint16_t>(from, levels, plane.samples)
                   : ReadSamples<uint8_t>(from, levels, plane.samples);
  from += format.sample_bytes() * plane.samples.size();
  return plane;
}

template <typename Sample>
void WriteSamples(const std::vector<float>& samples, Quantisation levels, float most, char* to) {
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto value = Nearest<Sample>(Clamp(samples[i] * levels.unit + levels.zero, most));
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

void WritePlane(const Plane& plane, const YuvFormat& format, Quantisation levels,
                std::string& frame) {
  const float most = static_cast<float>((1 << format.depth) - 1);
  const size_t begin = frame.size();
  frame.resize(begin + format.sample_bytes() * plane.samples.size());
  format.depth > 8 ? WriteSamples<uint16_t>(plane.samples, levels, most, &frame[begin])
                   : WriteSamples<uint8_t>(plane.samples, levels, most, &frame[begin]);
}

float CatmullRom(float x) {
  x = std::abs(x);
  if (x < 1) return 1 + x * x * (1.5f * x - 2.5f);
  return x < 2 ? 2 + x * (-4 + x * (2.5f - 0.5f * x)) : 0;
}

constexpr int kTaps = 8;

// The samples along one axis that each sample of the result is made of; beyond the edges these are
// repeated.
struct Taps {
  int first;
  std::array<float, kTaps> weight;
};

// An axis gets `to` samples: sample i of the result lies at i * step + begin. A cubic of `width`
// times its width, whose weights sum to 1.
std::vector<Taps> TapsOf(int to, float step, float begin, float width) {
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    Taps& taps = all[static_cast<size_t>(i)];
    const float position = static_cast<float>(i) * step + begin;
    taps.first = static_cast<int>(std::floor(position)) - kTaps / 2 + 1;
    float sum = 0;
    for (int k = 0; k < kTaps; ++k) {
      float& weight = taps.weight[static_cast<size_t>(k)];
      weight = CatmullRom((position - static_cast<float>(taps.first + k)) / width);
      sum += weight;
    }
    for (float& weight : taps.weight) weight /= sum;
  }
  return all;
}

// Where a chroma sample lies on luma's axis, in luma samples from the first of its pair.
float OffsetX(const YuvFormat& format) {
  return format.chroma == Chroma::k420 && format.siting == Siting::kCenter ? 0.5f : 0;
}
float OffsetY(const YuvFormat& format) { return format.siting == Siting::kTopLeft ? 0 : 0.5f; }

// The taps of one axis whose chroma has half the samples, at `offset`.
std::vector<Taps> EnlargingTaps(int to, float offset) {
  return TapsOf(to, 0.5f, -0.5f * offset, 1);
}
std::vector<Taps> ReducingTaps(int to, float offset) { return TapsOf(to, 2, offset, 2); }

// A row with its edges repeated for taps.
class EdgedRow {
 public:
  explicit EdgedRow(int width) : samples_(static_cast<size_t>(width + 2 * kTaps)) {}
  void Fill(const float* row) {
    const auto begin = samples_.begin() + kTaps, end = samples_.end() - kTaps;
    std::copy(row, row + (end - begin), begin);
    std::fill(samples_.begin(), begin, *begin);
    std::fill(end, samples_.end(), *(end - 1));
  }
  // Sample `x` of -kTaps and above, and those behind it.
  const float* At(int x) const { return &samples_[static_cast<size_t>(x + kTaps)]; }

 private:
  std::vector<float> samples_;
};

Plane ResampleX(const Plane& from, const std::vector<Taps>& taps) {
  Plane to({static_cast<int>(taps.size()), from.size.height});
  for (int y = 0; y < to.size.height; ++y) {
    const float* const src = from.row(y);
    float* const dst = to.row(y);
    for (size_t x = 0; x < taps.size(); ++x) {
      float sum = 0;
      for (int k = 0; k < kTaps; ++k)
        sum += taps[x].weight[static_cast<size_t>(k)] *
               src[std::clamp(taps[x].first + k, 0, from.size.width - 1)];
      dst[x] = sum;
    }
  }
  return to;
}

// The sums of taps for every sample, of which each lies kStep source samples behind the last.
template <int kStep>
void SumTaps(const float* src, const std::array<float, kTaps>& weight, std::vector<float>& sums) {
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (size_t k = 0; k < kTaps; ++k)
    for (size_t x = 0; x < sums.size(); ++x) sums[x] += weight[k] * src[x * kStep + k];
}

// ResampleX with EnlargingTaps: every second sample has the same weights.
Plane DoubleX(const Plane& from, const std::vector<Taps>& taps) {
  Plane to({static_cast<int>(taps.size()), from.size.height});
  EdgedRow src(from.size.width);
  std::vector<float> even((taps.size() + 1) / 2), odd(taps.size() / 2);
  for (int y = 0; y < to.size.height; ++y) {
    src.Fill(from.row(y));
    SumTaps<1>(src.At(taps[0].first), taps[0].weight, even);
    if (!odd.empty()) SumTaps<1>(src.At(taps[1].first), taps[1].weight, odd);
    float* const dst = to.row(y);
    for (size_t x = 0; x < odd.size(); ++x) {
      dst[2 * x] = even[x];
      dst[2 * x + 1] = odd[x];
    }
    dst[2 * even.size() - 2] = even.back();
  }
  return to;
}

// ResampleX with ReducingTaps: all samples have the same weights.
Plane HalveX(const Plane& from, const std::vector<Taps>& taps) {
  Plane to({static_cast<int>(taps.size()), from.size.height});
  EdgedRow src(from.size.width);
  std::vector<float> sums(taps.size());
  for (int y = 0; y < to.size.height; ++y) {
    src.Fill(from.row(y));
    SumTaps<2>(src.At(taps[0].first), taps[0].weight, sums);
    std::copy(sums.begin(), sums.end(), to.row(y));
  }
  return to;
}

Plane ResampleY(const Plane& from, const std::vector<Taps>& taps) {
  Plane to({from.size.width, static_cast<int>(taps.size())});
  for (int y = 0; y < to.size.height; ++y) {
    const Taps& tap = taps[static_cast<size_t>(y)];
    float* const dst = to.row(y);
    for (int k = 0; k < kTaps; ++k) {
      const float weight = tap.weight[static_cast<size_t>(k)];
      if (weight == 0) continue;
      const float* const src = from.row(std::clamp(tap.first + k, 0, from.size.height - 1));
      for (int x = 0; x < to.size.width; ++x) dst[x] += weight * src[x];
    }
  }
  return to;
}

Plane EnlargeChroma(Plane plane, const YuvFormat& format) {
  plane = DoubleX(plane, EnlargingTaps(format.size.width, OffsetX(format)));
  if (format.chroma == Chroma::k420)
    plane = ResampleY(plane, EnlargingTaps(format.size.height, OffsetY(format)));
  return plane;
}

Plane ReduceChroma(Plane plane, const YuvFormat& format) {
  const Size size = format.chroma_size();
  if (format.chroma == Chroma::k420)
    plane = ResampleY(plane, ReducingTaps(size.height, OffsetY(format)));
  return HalveX(plane, ReducingTaps(size.width, OffsetX(format)));
}

// For an axis with luma from `luma` to `to_luma` samples, and with a sample of chroma for each
// `step` of them, at `offset`.
std::vector<Taps> ResamplingTaps(int luma, int to_luma, int step, float offset) {
  const float ratio = static_cast<float>(luma) / static_cast<float>(to_luma);
  const float begin = ((offset + 0.5f) * ratio - 0.5f - offset) / static_cast<float>(step);
  return TapsOf((to_luma + step - 1) / step, ratio, begin, std::clamp(ratio, 1.0f, 2.0f));
}

// The sample of a colour, 0..1.
template <typename Sample>
Sample OfUnit(float value) {
  return Nearest<Sample>(Clamp(value, 1) * static_cast<float>(static_cast<Sample>(~Sample{0})));
}

template <typename Sample>
void StoreRgb(const Plane& luma, const Plane& blue, const Plane& red, Shares shares, Image& image) {
  for (int y = 0; y < luma.size.height; ++y) {
    const float *const lumas = luma.row(y), *const blues = blue.row(y), *const reds = red.row(y);
    auto* const dst = image.mutable_view().row_as<Sample>(y);
    for (int x = 0; x < luma.size.width; ++x) {
      const float l = lumas[x];
      const float r = l + 2 * (1 - shares.red) * reds[x];
      const float b = l + 2 * (1 - shares.blue) * blues[x];
      dst[kRgbChannels * x] = OfUnit<Sample>(r);
      dst[kRgbChannels * x + 1] =
          OfUnit<Sample>((l - shares.red * r - shares.blue * b) / shares.green());
      dst[kRgbChannels * x + 2] = OfUnit<Sample>(b);
    }
  }
}

template <typename Sample>
void StoreGray(const Plane& luma, Image& image) {
  for (int y = 0; y < luma.size.height; ++y)
    std::transform(luma.row(y), luma.row(y) + luma.size.width,
                   image.mutable_view().row_as<Sample>(y), OfUnit<Sample>);
}

// Luma, blue's and red's difference.
struct Planes {
  Plane luma, blue, red;
};

template <typename Sample, int kChannels>
void LoadPixels(ImageView image, Shares shares, Planes& planes) {
  constexpr float kUnit = 1 / static_cast<float>(static_cast<Sample>(~Sample{0}));
  constexpr int kGreen = kChannels >= kRgbChannels ? 1 : 0, kBlue = 2 * kGreen;
  for (int y = 0; y < image.height_px(); ++y) {
    const Sample* const src = image.row_as<Sample>(y);
    float *const luma = planes.luma.row(y), *const blue = planes.blue.row(y),
                 *const red = planes.red.row(y);
    for (int x = 0; x < image.width_px(); ++x) {
      const float r = static_cast<float>(src[kChannels * x]) * kUnit;
      const float g = static_cast<float>(src[kChannels * x + kGreen]) * kUnit;
      const float b = static_cast<float>(src[kChannels * x + kBlue]) * kUnit;
      const float l = shares.red * r + shares.green() * g + shares.blue * b;
      luma[x] = l;
      blue[x] = (b - l) / (2 * (1 - shares.blue));
      red[x] = (r - l) / (2 * (1 - shares.red));
    }
  }
}

template <typename Sample>
void LoadPlanes(ImageView image, Shares shares, Planes& planes) {
  constexpr decltype(&LoadPixels<Sample, 1>) kLoad[] = {
      LoadPixels<Sample, 1>, LoadPixels<Sample, 2>, LoadPixels<Sample, 3>, LoadPixels<Sample, 4>};
  kLoad[image.spec.channels - 1](image, shares, planes);
}

}  // namespace

std::optional<Matrix> MatrixNamed(absl::string_view name) {
  for (const Matrix matrix : {Matrix::kBt601, Matrix::kBt709, Matrix::kBt2020})
    if (name == NameOf(matrix)) return matrix;
  return std::nullopt;
}

const char* NameOf(Matrix matrix) {
  constexpr const char* kNames[] = {"601", "709", "2020"};
  return kNames[static_cast<size_t>(matrix)];
}

Matrix MatrixByHeight(int height_px) {
  constexpr int kLastBt601Height = 576;
  return height_px <= kLastBt601Height ? Matrix::kBt601 : Matrix::kBt709;
}

Size YuvFormat::chroma_size() const {
  switch (chroma) {
    case Chroma::kMono:
      return {};
    case Chroma::k420:
      return {(size.width + 1) / 2, (size.height + 1) / 2};
    case Chroma::k422:
      return {(size.width + 1) / 2, size.height};
    case Chroma::k444:
      break;
  }
  return size;
}

size_t YuvFormat::frame_bytes() const {
  const Size half = chroma_size();
  return sample_bytes() * static_cast<size_t>(size.Area() + 2 * half.Area());
}

Image YuvToRgb(std::span<const uint8_t> frame, const YuvFormat& format) {
  UPSCALED_CHECK(frame.size() == format.frame_bytes());
  const bool is_mono = format.chroma == Chroma::kMono;
  Image image({format.size.width, format.size.height, is_mono ? 1 : kRgbChannels,
               format.depth > 8 ? SampleType::kU16 : SampleType::kU8});
  const uint8_t* from = frame.data();
  const Plane luma = ReadPlane(from, format.size, format, LumaOf(format));
  if (is_mono) {
    format.depth > 8 ? StoreGray<uint16_t>(luma, image) : StoreGray<uint8_t>(luma, image);
    return image;
  }
  Plane blue = ReadPlane(from, format.chroma_size(), format, ChromaOf(format));
  Plane red = ReadPlane(from, format.chroma_size(), format, ChromaOf(format));
  if (format.chroma != Chroma::k444) {
    blue = EnlargeChroma(std::move(blue), format);
    red = EnlargeChroma(std::move(red), format);
  }
  const Shares shares = SharesOf(format.matrix);
  format.depth > 8 ? StoreRgb<uint16_t>(luma, blue, red, shares, image)
                   : StoreRgb<uint8_t>(luma, blue, red, shares, image);
  return image;
}

std::string RgbToYuv(ImageView image, const YuvFormat& format) {
  UPSCALED_CHECK(image.spec.size() == format.size && image.spec.type != SampleType::kF32);
  Planes planes{Plane(format.size), Plane(format.size), Plane(format.size)};
  const Shares shares = SharesOf(format.matrix);
  image.spec.type == SampleType::kU8 ? LoadPlanes<uint8_t>(image, shares, planes)
                                     : LoadPlanes<uint16_t>(image, shares, planes);
  std::string frame;
  frame.reserve(format.frame_bytes());
  WritePlane(planes.luma, format, LumaOf(format), frame);
  if (format.chroma == Chroma::kMono) return frame;
  for (Plane* const plane : {&planes.blue, &planes.red}) {
    if (format.chroma != Chroma::k444) *plane = ReduceChroma(std::move(*plane), format);
    WritePlane(*plane, format, ChromaOf(format), frame);
  }
  return frame;
}

std::string ResampleChroma(std::span<const uint8_t> frame, const YuvFormat& format, Size size) {
  UPSCALED_CHECK(frame.size() == format.frame_bytes());
  std::string planes;
  if (format.chroma == Chroma::kMono) return planes;
  const bool halves_x = format.chroma != Chroma::k444, halves_y = format.chroma == Chroma::k420;
  const auto x_taps = ResamplingTaps(format.size.width, size.width, halves_x ? 2 : 1,
                                     halves_x ? OffsetX(format) : 0);
  const auto y_taps = ResamplingTaps(format.size.height, size.height, halves_y ? 2 : 1,
                                     halves_y ? OffsetY(format) : 0);
  const size_t luma_bytes = format.sample_bytes() * static_cast<size_t>(format.size.Area());
  const uint8_t* from = frame.subspan(luma_bytes).data();
  for (int i = 0; i < 2; ++i) {
    const Plane plane = ReadPlane(from, format.chroma_size(), format, ChromaOf(format));
    WritePlane(ResampleY(ResampleX(plane, x_taps), y_taps), format, ChromaOf(format), planes);
  }
  return planes;
}

}  // namespace upscaled::client
