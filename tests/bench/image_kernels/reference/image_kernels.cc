#include "tests/bench/image_kernels/reference/image_kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/base/check.h"
#include "engine/image/full_scale.h"
#include "engine/image/quality.h"

namespace upscaled::reference {
namespace {

template <typename T>
double SquaredDistance(const T* a, const T* b, int colours) {
  double sum = 0;
  for (int c = 0; c < colours; ++c) {
    const double levels = (double{1} * a[c] - b[c]) * 255 / kFullScale<T>;
    sum += levels * levels;
  }
  return sum;
}

template <typename T>
void FilterPixel(ImageView src, int x, int y, const BilateralOptions& options, uint16_t* dst) {
  const int channels = src.spec.channels, colours = channels < 3 ? 1 : 3;
  const auto at = [&](int column, int row) { return src.row_as<T>(row) + column * channels; };
  const auto hidden = [&](const T* p) { return src.spec.has_alpha() && p[channels - 1] == 0; };
  const T* centre = at(x, y);
  constexpr int kStep = kFullScale<uint16_t> / kFullScale<T>;
  for (int c = 0; c < channels; ++c) dst[c] = centre[c] * kStep;
  if (hidden(centre)) return;
  const int radius = options.radius_px();
  double weights = 0, sums[3] = {};
  for (int row = std::max(0, y - radius); row <= std::min(src.height_px() - 1, y + radius); ++row) {
    for (int column = std::max(0, x - radius); column <= std::min(src.width_px() - 1, x + radius);
         ++column) {
      const T* pixel = at(column, row);
      if (hidden(pixel)) continue;
      const double place = (column - x) * (column - x) + (row - y) * (row - y);
      const double weight = std::exp(-place / (2 * options.sigma_space * options.sigma_space)) *
                            std::exp(-SquaredDistance(pixel, centre, colours) /
                                     (2 * options.sigma_range * options.sigma_range));
      weights += weight;
      for (int c = 0; c < colours; ++c) sums[c] += weight * pixel[c];
    }
  }
  for (int c = 0; c < colours; ++c) {
    dst[c] = static_cast<uint16_t>(std::lround(sums[c] / weights * kStep));
  }
}

void FilterRgb(const ImageWork& work, const uint8_t* src, uint8_t* dst) {
  const ImageSpec spec{work.size.width, work.size.height, 3, SampleType::kU8};
  const Image filtered =
      Bilateral({src, spec, static_cast<ptrdiff_t>(spec.row_bytes())}, work.bilateral);
  const uint16_t* samples = filtered.view().row_as<uint16_t>(0);
  std::transform(samples, samples + SourceBytes(work), dst,
                 [](uint16_t v) { return static_cast<uint8_t>((v + 128) / 257); });
}

void Transpose(Size size, const float* src, float* dst) {
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      dst[int64_t{1} * x * size.height + y] = src[int64_t{1} * y * size.width + x];
    }
  }
}

void ToPlanes(int64_t pixels, const uint8_t* src, float* dst) {
  for (int64_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < 8; ++c) dst[i * 8 + c] = c < 3 ? src[i * 3 + c] / 255.0f : 0.0f;
  }
}

void FromPlanes(int64_t pixels, const float* src, uint8_t* dst) {
  for (int64_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < 3; ++c) {
      const float value = src[i * 8 + c] > 0 ? std::min(src[i * 8 + c], 1.0f) : 0.0f;
      dst[i * 3 + c] = static_cast<uint8_t>(value * 255 + 0.5f);
    }
  }
}

// The statistics of `count` values, `step` apart.
LineStats StatsOf(const float* values, int count, int step) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  LineStats stats{0, kInfinity, -kInfinity, 0};
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[i * step];
    if (!std::isfinite(value)) {
      ++stats.non_finite;
      continue;
    }
    sum += value;
    stats.min = std::min(stats.min, value);
    stats.max = std::max(stats.max, value);
  }
  stats.sum = static_cast<float>(sum);
  return stats;
}

double SumOfSquaredErrors(int64_t pixels, const float* planes) {
  double sum = 0;
  for (int64_t i = 0; i < pixels; ++i) {
    const double off = double{planes[i]} - planes[pixels + i];
    sum += off * off;
  }
  return sum;
}

// The SSIM of the window at (x, y) of both planes.
double SsimOfWindow(Size size, const float* planes, int x, int y) {
  constexpr double kC1 = (0.01 * 255) * (0.01 * 255), kC2 = (0.03 * 255) * (0.03 * 255);
  const auto weights = SsimWindow();
  double a = 0, b = 0, aa = 0, bb = 0, ab = 0;
  for (int dy = 0; dy < kSsimWindow; ++dy) {
    for (int dx = 0; dx < kSsimWindow; ++dx) {
      const int64_t at = int64_t{1} * (y + dy) * size.width + x + dx;
      const double weight = weights[dy] * weights[dx];
      const double va = planes[at], vb = planes[size.Area() + at];
      a += weight * va;
      b += weight * vb;
      aa += weight * va * va;
      bb += weight * vb * vb;
      ab += weight * va * vb;
    }
  }
  const double variances = (aa - a * a) + (bb - b * b), covariance = ab - a * b;
  return (2 * a * b + kC1) * (2 * covariance + kC2) / ((a * a + b * b + kC1) * (variances + kC2));
}

double SumOfSsim(Size size, const float* planes) {
  double sum = 0;
  for (int y = 0; y + kSsimWindow <= size.height; ++y) {
    for (int x = 0; x + kSsimWindow <= size.width; ++x) sum += SsimOfWindow(size, planes, x, y);
  }
  return sum;
}

void Compute(const ImageWork& work, const uint8_t* src, uint8_t* dst) {
  const Size size = work.size;
  const auto* floats = reinterpret_cast<const float*>(src);
  auto* stats = reinterpret_cast<LineStats*>(dst);
  switch (work.op) {
    case ImageOp::kCopy:
      std::memcpy(dst, src, SourceBytes(work));
      break;
    case ImageOp::kBilateral:
      FilterRgb(work, src, dst);
      break;
    case ImageOp::kTranspose:
      Transpose(size, floats, reinterpret_cast<float*>(dst));
      break;
    case ImageOp::kToPlanes:
      ToPlanes(size.Area(), src, reinterpret_cast<float*>(dst));
      break;
    case ImageOp::kFromPlanes:
      FromPlanes(size.Area(), floats, dst);
      break;
    case ImageOp::kRowStats:
      for (int y = 0; y < size.height; ++y) {
        stats[y] = StatsOf(floats + int64_t{1} * y * size.width, size.width, 1);
      }
      break;
    case ImageOp::kColumnStats:
      for (int x = 0; x < size.width; ++x) stats[x] = StatsOf(floats + x, size.height, size.width);
      break;
    case ImageOp::kSquaredError:
      *reinterpret_cast<double*>(dst) = SumOfSquaredErrors(size.Area(), floats);
      break;
    case ImageOp::kSsim:
      *reinterpret_cast<double*>(dst) = SumOfSsim(size, floats);
      break;
  }
}

class ReferenceImageKernels final : public ImageKernels {
 public:
  std::span<const ImageStep> steps() const override {
    static constexpr ImageStep kSteps[] = {
        {ImageOp::kCopy, "plain"},        {ImageOp::kBilateral, "plain"},
        {ImageOp::kTranspose, "plain"},   {ImageOp::kToPlanes, "plain"},
        {ImageOp::kFromPlanes, "plain"},  {ImageOp::kRowStats, "plain"},
        {ImageOp::kColumnStats, "plain"}, {ImageOp::kSquaredError, "plain"},
        {ImageOp::kSsim, "plain"},
    };
    return kSteps;
  }

  absl::StatusOr<double> Run(size_t step, const ImageWork& work, std::span<const uint8_t> src,
                             std::span<uint8_t> dst) override {
    UPSCALED_CHECK(steps()[step].op == work.op && src.size() == SourceBytes(work) &&
                   dst.size() == ResultBytes(work));
    const auto start = std::chrono::steady_clock::now();
    Compute(work, src.data(), dst.data());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

Image Bilateral(ImageView src, const BilateralOptions& options) {
  Image result({src.width_px(), src.height_px(), src.spec.channels, SampleType::kU16});
  for (int y = 0; y < src.height_px(); ++y) {
    uint16_t* dst = result.mutable_view().row_as<uint16_t>(y);
    for (int x = 0; x < src.width_px(); ++x, dst += src.spec.channels) {
      src.spec.type == SampleType::kU8 ? FilterPixel<uint8_t>(src, x, y, options, dst)
                                       : FilterPixel<uint16_t>(src, x, y, options, dst);
    }
  }
  return result;
}

std::unique_ptr<ImageKernels> CreateImageKernels() {
  return std::make_unique<ReferenceImageKernels>();
}

}  // namespace upscaled::reference
