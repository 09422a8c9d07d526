// A convolution's results on random numbers, in floats and in doubles.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/train/conv.h"
#include "engine/train/gradient_check.h"
#include "tests/support/test_image.h"

namespace upscaled::train {

struct ConvCase {
  int in, out, kernel_px, padding_px;
  Grid grid;
};
inline constexpr ConvCase kConvCases[] = {
    {16, 16, 3, 0, {1, {3, 3}}},  {48, 12, 3, 0, {3, {9, 8}}},    {5, 33, 3, 1, {2, {7, 15}}},
    {33, 64, 3, 1, {2, {17, 1}}}, {12, 128, 3, 0, {2, {31, 14}}}, {3, 48, 3, 0, {2, {20, 21}}},
    {20, 3, 3, 0, {2, {13, 7}}},  {32, 48, 1, 0, {2, {5, 6}}},    {19, 17, 2, 1, {2, {6, 7}}}};

template <typename Real>
LineVector<Real> Copy(const LineVector<double>& values) {
  return LineVector<Real>(values.begin(), values.end());
}

// The results of a convolution for a case's numbers.
template <typename Real>
struct Results {
  Tensor<Real> dst, d_src;
  std::vector<Real> d_params;
};

class ConvKernelTest : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvKernelTest()
      : src_(GetParam().grid, GetParam().in),
        d_src_(src_),
        d_dst_({GetParam().grid.images, Conv<double>(layer_).OutputSize(GetParam().grid.size)},
               GetParam().out),
        params_(size_t{1} * layer_.kernel_px * layer_.kernel_px * GetParam().in * GetParam().out +
                GetParam().out) {
    FillPixels(src_, random_);
    FillPixels(d_src_, random_);
    FillPixels(d_dst_, random_);
    std::uniform_real_distribution<double> number(-1, 1);
    for (double& value : params_) value = number(random_) / (9 * GetParam().in);
  }

  // The derivative by the source is added to d_src_.
  template <typename Real>
  Results<Real> Run(Conv<Real>& conv) const {
    Tensor<Real> src(src_.grid(), src_.channels()), d_dst(d_dst_.grid(), d_dst_.channels());
    Results<Real> results{d_dst, src, std::vector<Real>(params_.size())};
    src.values() = Copy<Real>(src_.values());
    d_dst.values() = Copy<Real>(d_dst_.values());
    results.d_src.values() = Copy<Real>(d_src_.values());
    const std::vector<Real> params(params_.begin(), params_.end());
    const Tensor<Real>* sources[] = {&src};
    const SourceGradient<Real> d_sources[] = {{.tensor = &results.d_src, .add = true}};
    conv.Begin(params.data());
    conv.Forward(params.data(), sources, results.dst);
    conv.Backward(params.data(), sources, results.dst, d_dst, d_sources, results.d_params.data());
    conv.End(results.d_params.data());
    return results;
  }

  // Relative to the root of the mean square.
  template <typename Expected, typename Found>
  static double Error(const Expected& expected, const Found& found) {
    double squares = 0, error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      squares += expected[i] * expected[i];
      error = std::max(error, std::abs(expected[i] - double{found[i]}));
    }
    return error / std::sqrt(squares / static_cast<double>(expected.size()));
  }

  const Layer layer_{.op = Op::kConv,
                     .out_channels = GetParam().out,
                     .in_channels = GetParam().in,
                     .kernel_px = GetParam().kernel_px,
                     .padding_px = GetParam().padding_px};
  std::mt19937_64 random_{test::FreshRandom()()};
  Tensor<double> src_, d_src_, d_dst_;
  std::vector<double> params_;
};

}  // namespace upscaled::train
