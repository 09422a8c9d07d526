// Double precision, a vector of adjacent pixels at a time. SSIM's window is separable: each row of
// pixels is filtered along once and kept, as five planes, while windows reach it.
#include "engine/image/quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "engine/base/aligned_buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/image/quality.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<double, 8>;
using V = hn::Vec<Tag>;
constexpr int kWindow = kSsimWindow;

// `a` and `b` are rows of `width` pixels as doubles, readable for kWindow + 8 values beyond. Writes
// five planes of `stride` values, the windows' sums along the row: of a, b, a^2, b^2 and a b.
void FilterAlong(const double* weights, const double* a, const double* b, int width, size_t stride,
                 double* moments) {
  const Tag d;
  for (int x = 0; x < width; x += static_cast<int>(hn::Lanes(d))) {
    V sum_a = hn::Zero(d), sum_b = sum_a, sum_aa = sum_a, sum_bb = sum_a, sum_ab = sum_a;
    for (int i = 0; i < kWindow; ++i) {
      const V weight = hn::Set(d, weights[i]);
      const V va = hn::LoadU(d, a + x + i), vb = hn::LoadU(d, b + x + i);
      const V wa = hn::Mul(weight, va), wb = hn::Mul(weight, vb);
      sum_a = hn::Add(sum_a, wa);
      sum_b = hn::Add(sum_b, wb);
      sum_aa = hn::MulAdd(wa, va, sum_aa);
      sum_bb = hn::MulAdd(wb, vb, sum_bb);
      sum_ab = hn::MulAdd(wa, vb, sum_ab);
    }
    hn::StoreU(sum_a, d, moments + x);
    hn::StoreU(sum_b, d, moments + stride + x);
    hn::StoreU(sum_aa, d, moments + 2 * stride + x);
    hn::StoreU(sum_bb, d, moments + 3 * stride + x);
    hn::StoreU(sum_ab, d, moments + 4 * stride + x);
  }
}

// SSIM of a row of windows from their kWindow rows of moments.
void CompareDown(const double* weights, const double* const* rows, int width, size_t stride,
                 double* ssim) {
  const Tag d;
  const V c1 = hn::Set(d, (0.01 * 255) * (0.01 * 255)),
          c2 = hn::Set(d, (0.03 * 255) * (0.03 * 255));
  const V two = hn::Set(d, 2.0);
  for (int x = 0; x < width; x += static_cast<int>(hn::Lanes(d))) {
    V a = hn::Zero(d), b = a, aa = a, bb = a, ab = a;
    for (int i = 0; i < kWindow; ++i) {
      const V weight = hn::Set(d, weights[i]);
      const double* row = rows[i] + x;
      a = hn::MulAdd(weight, hn::LoadU(d, row), a);
      b = hn::MulAdd(weight, hn::LoadU(d, row + stride), b);
      aa = hn::MulAdd(weight, hn::LoadU(d, row + 2 * stride), aa);
      bb = hn::MulAdd(weight, hn::LoadU(d, row + 3 * stride), bb);
      ab = hn::MulAdd(weight, hn::LoadU(d, row + 4 * stride), ab);
    }
    const V squares = hn::MulAdd(a, a, hn::Mul(b, b)), product = hn::Mul(a, b);
    const V variances = hn::Sub(hn::Add(aa, bb), squares), covariance = hn::Sub(ab, product);
    const V above = hn::Mul(hn::MulAdd(two, product, c1), hn::MulAdd(two, covariance, c2));
    const V below = hn::Mul(hn::Add(squares, c1), hn::Add(variances, c2));
    hn::StoreU(hn::Div(above, below), d, ssim + x);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace upscaled {
namespace {

HWY_EXPORT(FilterAlong);
HWY_EXPORT(CompareDown);

using RowSumsFunction = void(const PlanePair& planes, int begin, int end, double* sums);

double Total(RowSumsFunction* sums_of_rows, const PlanePair& planes, int rows) {
  std::vector<double> sums(rows);
  sums_of_rows(planes, 0, rows, sums.data());
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

std::array<double, kSsimWindow> SsimWindow() {
  constexpr double kSigma = 1.5;
  std::array<double, kSsimWindow> window;
  for (int i = 0; i < kSsimWindow; ++i) {
    const double x = i - kSsimWindow / 2;
    window[i] = std::exp(-x * x / (2 * kSigma * kSigma));
  }
  const double sum = std::accumulate(window.begin(), window.end(), 0.0);
  for (double& weight : window) weight /= sum;
  return window;
}

void SquaredErrorOfRows(const PlanePair& planes, int begin, int end, double* sums) {
  // Eight chains: compilers make vectors of them without changing the order.
  constexpr size_t kChains = 8;
  const size_t width = planes.size.width;
  for (int y = begin; y < end; ++y) {
    const float* a = planes.a + y * width;
    const float* b = planes.b + y * width;
    double chains[kChains] = {};
    for (size_t x = 0; x < width / kChains * kChains; x += kChains) {
      for (size_t i = 0; i < kChains; ++i) {
        const double off = double{a[x + i]} - double{b[x + i]};
        chains[i] += off * off;
      }
    }
    for (size_t x = width / kChains * kChains; x < width; ++x) {
      const double off = double{a[x]} - double{b[x]};
      chains[0] += off * off;
    }
    sums[y - begin] = std::accumulate(chains, chains + kChains, 0.0);
  }
}

void SsimOfRows(const PlanePair& planes, int begin, int end, double* sums) {
  constexpr size_t kMaxLanes = 8, kMoments = 5;
  const size_t width = planes.size.width;
  const int windows = planes.size.width - kSsimWindow + 1;
  const size_t stride = (windows + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
  const std::array<double, kSsimWindow> weights = SsimWindow();
  std::vector<double> a(stride + kSsimWindow + kMaxLanes), b(a.size());
  AlignedBuffer<double> ring(kSsimWindow * kMoments * stride), ssim(stride);
  const auto ring_row = [&](int y) { return ring.data() + y % kSsimWindow * kMoments * stride; };
  for (int y = begin; y < end + kSsimWindow - 1; ++y) {
    std::copy_n(planes.a + y * width, width, a.begin());
    std::copy_n(planes.b + y * width, width, b.begin());
    HWY_DYNAMIC_DISPATCH(FilterAlong)
    (weights.data(), a.data(), b.data(), windows, stride, ring_row(y));
    const int top = y - kSsimWindow + 1;
    if (top < begin) continue;
    const double* rows[kSsimWindow];
    for (int i = 0; i < kSsimWindow; ++i) rows[i] = ring_row(top + i);
    HWY_DYNAMIC_DISPATCH(CompareDown)(weights.data(), rows, windows, stride, ssim.data());
    sums[top - begin] = std::accumulate(ssim.data(), ssim.data() + windows, 0.0);
  }
}

double Psnr_dB(const PlanePair& planes) {
  const double mse = Total(&SquaredErrorOfRows, planes, planes.size.height) /
                     static_cast<double>(planes.size.Area());
  return std::min(100.0, 10 * std::log10(255.0 * 255.0 / mse));
}

double Ssim(const PlanePair& planes) {
  const Size windows{planes.size.width - kSsimWindow + 1, planes.size.height - kSsimWindow + 1};
  return Total(&SsimOfRows, planes, windows.height) / static_cast<double>(windows.Area());
}

}  // namespace upscaled
#endif  // HWY_ONCE
