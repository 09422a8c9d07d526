// Source: ITU-R BT.601, BT.709 and BT.2020 (non-constant luminance), quantisation of each.
#include "client/video/yuv.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// Samples that stand for 0 and 1 of luma, or for 0 and 1 of chroma, which spans -0.5..0.5.
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

Plane ReadPlane(const uint8_t*& from, Size size, const YuvFormat& format, Quantisation levels) {
  Plane plane(size);
  for (float& sample : plane.samples) {
    const int value = format.depth > 8 ? from[0] | from[1] << 8 : from[0];
    from += format.sample_bytes();
    sample = (static_cast<float>(value) - levels.zero) / levels.unit;
  }
  return plane;
}

void WritePlane(const Plane& plane, const YuvFormat& format, Quantisation levels,
                std::string& frame) {
  const float most = static_cast<float>((1 << format.depth) - 1);
  for (const float sample : plane.samples) {
    const auto value = static_cast<unsigned>(
        std::lrint(std::clamp(sample * levels.unit + levels.zero, 0.0f, most)));
    frame.push_back(static_cast<char>(value & 0xFF));
    if (format.depth > 8) frame.push_back(static_cast<char>(value >> 8));
  }
}

float CatmullRom(float x) {
  x = std::abs(x);
  if (x < 1) return 1 + x * x * (1.5f * x - 2.5f);
  return x < 2 ? 2 + x * (-4 + x * (2.5f - 0.5f * x)) : 0;
}

constexpr int kTaps = 8;

// The samples along one axis that each sample of the result is made of.
struct Taps {
  std::array<int, kTaps> index;
  std::array<float, kTaps> weight;
};

// An axis with `from` samples gets `to` of them: sample i of the result lies at i * step +
// begin. A cubic of `width` times its width, whose weights sum to 1.
std::vector<Taps> TapsOf(int from, int to, float step, float begin, float width) {
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    Taps& taps = all[static_cast<size_t>(i)];
    const float position = static_cast<float>(i) * step + begin;
    const int first = static_cast<int>(std::floor(position)) - kTaps / 2 + 1;
    float sum = 0;
    for (int k = 0; k < kTaps; ++k) {
      const auto tap = static_cast<size_t>(k);
      taps.index[tap] = std::clamp(first + k, 0, from - 1);
      taps.weight[tap] = CatmullRom((position - static_cast<float>(first + k)) / width);
      sum += taps.weight[tap];
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
std::vector<Taps> EnlargingTaps(int from, int to, float offset) {
  return TapsOf(from, to, 0.5f, -0.5f * offset, 1);
}
std::vector<Taps> ReducingTaps(int from, int to, float offset) {
  return TapsOf(from, to, 2, offset, 2);
}

Plane ResampleX(const Plane& from, const std::vector<Taps>& taps) {
  Plane to({static_cast<int>(taps.size()), from.size.height});
  for (int y = 0; y < to.size.height; ++y) {
    const float* const src = from.row(y);
    float* const dst = to.row(y);
    for (size_t x = 0; x < taps.size(); ++x) {
      float sum = 0;
      for (size_t k = 0; k < kTaps; ++k)
        sum += taps[x].weight[k] * src[static_cast<size_t>(taps[x].index[k])];
      dst[x] = sum;
    }
  }
  return to;
}

Plane ResampleY(const Plane& from, const std::vector<Taps>& taps) {
  Plane to({from.size.width, static_cast<int>(taps.size())});
  for (int y = 0; y < to.size.height; ++y) {
    const Taps& tap = taps[static_cast<size_t>(y)];
    float* const dst = to.row(y);
    for (size_t k = 0; k < kTaps; ++k) {
      if (tap.weight[k] == 0) continue;
      const float* const src = from.row(tap.index[k]);
      for (int x = 0; x < to.size.width; ++x) dst[x] += tap.weight[k] * src[x];
    }
  }
  return to;
}

Plane EnlargeChroma(Plane plane, const YuvFormat& format) {
  plane = ResampleX(plane, EnlargingTaps(plane.size.width, format.size.width, OffsetX(format)));
  if (format.chroma == Chroma::k420)
    plane = ResampleY(plane, EnlargingTaps(plane.size.height, format.size.height, OffsetY(format)));
  return plane;
}

Plane ReduceChroma(Plane plane, const YuvFormat& format) {
  const Size size = format.chroma_size();
  if (format.chroma == Chroma::k420)
    plane = ResampleY(plane, ReducingTaps(format.size.height, size.height, OffsetY(format)));
  return ResampleX(plane, ReducingTaps(format.size.width, size.width, OffsetX(format)));
}

// For an axis whose luma grows from `luma` to `to_luma` samples, and whose chroma has a sample for
// each `step` of those, at `offset`.
std::vector<Taps> ResamplingTaps(int luma, int to_luma, int step, float offset) {
  const float ratio = static_cast<float>(luma) / static_cast<float>(to_luma);
  const float begin = ((offset + 0.5f) * ratio - 0.5f - offset) / static_cast<float>(step);
  return TapsOf((luma + step - 1) / step, (to_luma + step - 1) / step, ratio, begin,
                std::clamp(ratio, 1.0f, 2.0f));
}

template <typename Sample>
void StoreRgb(const Plane& luma, const Plane& blue, const Plane& red, Shares shares, Image& image) {
  constexpr float kMost = static_cast<float>(static_cast<Sample>(~Sample{0}));
  const auto store = [](float value) {
    return static_cast<Sample>(std::lrint(std::clamp(value, 0.0f, 1.0f) * kMost));
  };
  for (int y = 0; y < luma.size.height; ++y) {
    auto* dst = image.mutable_view().row_as<Sample>(y);
    for (int x = 0; x < luma.size.width; ++x, dst += kRgbChannels) {
      const float l = luma.row(y)[x];
      const float r = l + 2 * (1 - shares.red) * red.row(y)[x];
      const float b = l + 2 * (1 - shares.blue) * blue.row(y)[x];
      dst[0] = store(r);
      dst[1] = store((l - shares.red * r - shares.blue * b) / shares.green());
      dst[2] = store(b);
    }
  }
}

template <typename Sample>
void StoreGray(const Plane& luma, Image& image) {
  constexpr float kMost = static_cast<float>(static_cast<Sample>(~Sample{0}));
  for (int y = 0; y < luma.size.height; ++y)
    for (int x = 0; x < luma.size.width; ++x)
      image.mutable_view().row_as<Sample>(y)[x] =
          static_cast<Sample>(std::lrint(std::clamp(luma.row(y)[x], 0.0f, 1.0f) * kMost));
}

// Luma, blue's and red's difference.
struct Planes {
  Plane luma, blue, red;
};

template <typename Sample>
void LoadPlanes(ImageView image, Shares shares, Planes& planes) {
  constexpr float kUnit = 1 / static_cast<float>(static_cast<Sample>(~Sample{0}));
  const int channels = image.spec.channels;
  const int green = channels >= kRgbChannels ? 1 : 0, blue = channels >= kRgbChannels ? 2 : 0;
  for (int y = 0; y < image.height_px(); ++y) {
    const Sample* src = image.row_as<Sample>(y);
    for (int x = 0; x < image.width_px(); ++x, src += channels) {
      const float r = static_cast<float>(src[0]) * kUnit;
      const float g = static_cast<float>(src[green]) * kUnit;
      const float b = static_cast<float>(src[blue]) * kUnit;
      const float l = shares.red * r + shares.green() * g + shares.blue * b;
      planes.luma.row(y)[x] = l;
      planes.blue.row(y)[x] = (b - l) / (2 * (1 - shares.blue));
      planes.red.row(y)[x] = (r - l) / (2 * (1 - shares.red));
    }
  }
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
