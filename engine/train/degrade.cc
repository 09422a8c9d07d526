#include "engine/train/degrade.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"

namespace upscaled::train {
namespace {

// A generator's next number as one in [0, 1). Not the standard's distributions: they differ between
// libraries.
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// Box and Muller's.
double Normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(random));
}

uint8_t ToByte(double value) {
  return static_cast<uint8_t>(std::floor(std::clamp(value, 0.0, 255.0) + 0.5));
}

// Along one axis: values `step` apart in lines of `count`.
void BlurLine(std::span<const double> kernel, uint8_t* first, ptrdiff_t step, int count,
              std::vector<double>& line) {
  const int radius = static_cast<int>(kernel.size()) / 2;
  line.resize(count);
  for (int i = 0; i < count; ++i) line[i] = first[i * step];
  for (int i = 0; i < count; ++i) {
    double sum = 0;
    for (int k = -radius; k <= radius; ++k) {
      sum += kernel[k + radius] * line[std::clamp(i + k, 0, count - 1)];
    }
    first[i * step] = ToByte(sum);
  }
}

void Blur(double sigma_px, Image& image) {
  const int radius = std::min(kSpoiledMarginPx, static_cast<int>(std::ceil(3 * sigma_px)));
  std::vector<double> kernel, line;
  double total = 0;
  for (int i = -radius; i <= radius; ++i) {
    total += kernel.emplace_back(std::exp(-0.5 * i * i / (sigma_px * sigma_px)));
  }
  for (double& weight : kernel) weight /= total;
  const MutableImageView view = image.mutable_view();
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < view.height_px(); ++y) {
      BlurLine(kernel, view.row(y) + c, 3, view.width_px(), line);
    }
    for (int x = 0; x < view.width_px(); ++x) {
      BlurLine(kernel, view.row(0) + 3 * x + c, view.stride_bytes, view.height_px(), line);
    }
  }
}

void AddNoise(double sigma, uint64_t seed, Image& image) {
  std::mt19937_64 random(seed);
  const MutableImageView view = image.mutable_view();
  for (int y = 0; y < view.height_px(); ++y) {
    uint8_t* row = view.row(y);
    for (int i = 0; i < 3 * view.width_px(); ++i) row[i] = ToByte(row[i] + sigma * Normal(random));
  }
}

// Blue's and red's difference from the brightness (BT.601's) become the means of 2x2 pixels.
void SubsampleChroma(Image& image) {
  constexpr double kRed = 0.299, kGreen = 0.587, kBlue = 0.114;
  const MutableImageView view = image.mutable_view();
  for (int y = 0; y + 1 < view.height_px(); y += 2) {
    for (int x = 0; x + 1 < view.width_px(); x += 2) {
      std::array<uint8_t*, 4> pixels;
      std::array<double, 4> brightness;
      double blue = 0, red = 0;
      for (int i = 0; i < 4; ++i) {
        const uint8_t* p = pixels[i] = view.row(y + i / 2) + 3 * (x + i % 2);
        brightness[i] = kRed * p[0] + kGreen * p[1] + kBlue * p[2];
        red += (p[0] - brightness[i]) / 4;
        blue += (p[2] - brightness[i]) / 4;
      }
      for (int i = 0; i < 4; ++i) {
        pixels[i][0] = ToByte(brightness[i] + red);
        pixels[i][1] = ToByte(brightness[i] - (kRed * red + kBlue * blue) / kGreen);
        pixels[i][2] = ToByte(brightness[i] + blue);
      }
    }
  }
}

absl::Status Compress(int quality, Image& image) {
  StringSink file;
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageEncoder> encoder,
                   CreateImageEncoder({.format = ImageFormat::kJpeg, .quality = quality},
                                      image.spec(), {}, file));
  RETURN_IF_ERROR(encoder->WriteRows(image.view()));
  RETURN_IF_ERROR(encoder->Finish());
  MemorySource bytes(file.bytes());
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageDecoder> decoder, OpenImageDecoder(bytes, {}));
  return decoder->ReadRows(image.mutable_view());
}

}  // namespace

Spoiling DrawSpoiling(const Recipe& recipe, std::mt19937_64& random) {
  const auto strength = [&](const Degradation& degradation) {
    const bool is_drawn = Uniform(random) < degradation.share;
    const double part = Uniform(random);
    return is_drawn ? degradation.min + part * (degradation.max - degradation.min) : 0;
  };
  Spoiling spoiling;
  spoiling.blur_sigma_px = strength(recipe.blur);
  spoiling.noise_sigma = strength(recipe.noise);
  spoiling.noise_seed = random();
  spoiling.subsamples_chroma = Uniform(random) < recipe.chroma_subsampling.share;
  spoiling.jpeg_quality = static_cast<int>(std::floor(strength(recipe.jpeg) + 0.5));
  spoiling.shift_x = static_cast<int>(random() % 16);
  spoiling.shift_y = static_cast<int>(random() % 16);
  return spoiling;
}

void Spoil(const Spoiling& spoiling, Image& image) {
  if (spoiling.blur_sigma_px > 0) Blur(spoiling.blur_sigma_px, image);
  if (spoiling.noise_sigma > 0) AddNoise(spoiling.noise_sigma, spoiling.noise_seed, image);
  if (spoiling.subsamples_chroma) SubsampleChroma(image);
  // Bytes of our encoder from an image in memory cannot be wrong.
  if (spoiling.jpeg_quality > 0) UPSCALED_CHECK(Compress(spoiling.jpeg_quality, image).ok());
}

}  // namespace upscaled::train
