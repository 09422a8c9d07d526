#include "tests/bench/picture_quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace upscaled::bench {
namespace {

// One plane of numbers.
struct Plane {
  int width = 0;
  int height = 0;
  std::vector<double> values;

  Plane(int width, int height)
      : width(width), height(height), values(static_cast<size_t>(width) * height) {}
  double* row(int y) { return &values[static_cast<size_t>(y) * width]; }
  const double* row(int y) const { return &values[static_cast<size_t>(y) * width]; }
};

Plane Luma(ImageView picture) {
  Plane luma(picture.width_px(), picture.spec.height_px);
  for (int y = 0; y < luma.height; ++y) {
    const uint8_t* p = picture.row(y);
    for (int x = 0; x < luma.width; ++x, p += 3) {
      luma.row(y)[x] = 16 + (65.481 * p[0] + 128.553 * p[1] + 24.966 * p[2]) / 255;
    }
  }
  return luma;
}

double Psnr(const Plane& a, const Plane& b) {
  double squares = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double d = a.values[i] - b.values[i];
    squares += d * d;
  }
  const double mse = squares / static_cast<double>(a.values.size());
  return std::min(100.0, 10 * std::log10(255.0 * 255.0 / mse));
}

constexpr int kWindow = 11;

std::array<double, kWindow> GaussianWindow() {
  constexpr double kSigma = 1.5;
  std::array<double, kWindow> window;
  double sum = 0;
  for (int i = 0; i < kWindow; ++i) {
    const double x = i - kWindow / 2;
    sum += window[i] = std::exp(-x * x / (2 * kSigma * kSigma));
  }
  for (double& w : window) w /= sum;
  return window;
}

// The mean under the window at every place where it lies inside.
Plane Blur(const Plane& plane, const std::array<double, kWindow>& window) {
  Plane across(plane.width - kWindow + 1, plane.height);
  for (int y = 0; y < across.height; ++y) {
    for (int x = 0; x < across.width; ++x) {
      double sum = 0;
      for (int i = 0; i < kWindow; ++i) sum += window[i] * plane.row(y)[x + i];
      across.row(y)[x] = sum;
    }
  }
  Plane blurred(across.width, plane.height - kWindow + 1);
  for (int y = 0; y < blurred.height; ++y) {
    for (int i = 0; i < kWindow; ++i) {
      const double* row = across.row(y + i);
      for (int x = 0; x < blurred.width; ++x) blurred.row(y)[x] += window[i] * row[x];
    }
  }
  return blurred;
}

Plane Product(const Plane& a, const Plane& b) {
  Plane product(a.width, a.height);
  std::transform(a.values.begin(), a.values.end(), b.values.begin(), product.values.begin(),
                 [](double x, double y) { return x * y; });
  return product;
}

// Wang, Bovik, Sheikh and Simoncelli, "Image Quality Assessment: From Error Visibility to
// Structural Similarity" (2004): 11 x 11 Gaussian window, K1 0.01, K2 0.03.
double Ssim(const Plane& a, const Plane& b) {
  constexpr double kC1 = (0.01 * 255) * (0.01 * 255), kC2 = (0.03 * 255) * (0.03 * 255);
  const std::array<double, kWindow> window = GaussianWindow();
  const Plane mean_a = Blur(a, window), mean_b = Blur(b, window);
  const Plane square_a = Blur(Product(a, a), window), square_b = Blur(Product(b, b), window);
  const Plane product = Blur(Product(a, b), window);
  double sum = 0;
  for (size_t i = 0; i < product.values.size(); ++i) {
    const double ma = mean_a.values[i], mb = mean_b.values[i];
    const double variances = square_a.values[i] - ma * ma + square_b.values[i] - mb * mb;
    const double covariance = product.values[i] - ma * mb;
    sum += (2 * ma * mb + kC1) * (2 * covariance + kC2) /
           ((ma * ma + mb * mb + kC1) * (variances + kC2));
  }
  return sum / static_cast<double>(product.values.size());
}

std::array<double, 3> ChannelMeans(ImageView picture) {
  std::array<int64_t, 3> sums{};
  for (int y = 0; y < picture.spec.height_px; ++y) {
    const uint8_t* p = picture.row(y);
    for (int x = 0; x < picture.width_px(); ++x, p += 3) {
      for (int c = 0; c < 3; ++c) sums[c] += p[c];
    }
  }
  const auto pixels = static_cast<double>(picture.spec.size().Area());
  return {sums[0] / pixels, sums[1] / pixels, sums[2] / pixels};
}

}  // namespace

PictureQuality MeasureQuality(ImageView picture, ImageView original, int crop_px) {
  const Size size = original.spec.size();
  const Rect inside = Expand({0, 0, size.width, size.height}, -crop_px);
  const Plane a = Luma(picture.Crop(inside)), b = Luma(original.Crop(inside));
  PictureQuality quality{.psnr_db = Psnr(a, b), .ssim = Ssim(a, b)};
  const std::array<double, 3> means = ChannelMeans(picture), wanted = ChannelMeans(original);
  for (int c = 0; c < 3; ++c) {
    quality.mean_shift = std::max(quality.mean_shift, std::abs(means[c] - wanted[c]));
  }
  return quality;
}

}  // namespace upscaled::bench
