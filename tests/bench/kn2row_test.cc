// The baseline computes the same as engine/train's convolution of doubles. Central differences
// check that one's derivatives.
#include "tests/bench/kn2row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/train/conv.h"
#include "engine/train/gradient_check.h"
#include "tests/bench/onednn.h"
#include "tests/support/test_image.h"

namespace upscaled::bench {
namespace {

constexpr int kIn = 20, kOut = 33;
constexpr train::Grid kGrid{3, {65, 44}};  // more pixels than are taken at a time

class Kn2RowTest : public ::testing::Test {
 protected:
  Kn2RowTest() : src_(kGrid, kIn), d_dst_(kGrid, kOut), dst_(d_dst_), d_src_(src_) {
    train::FillPixels(src_, random_);
    train::FillPixels(d_dst_, random_);
    std::uniform_real_distribution<double> number(-0.1, 0.1);
    params_.resize(9 * kIn * kOut + kOut);
    for (double& value : params_) value = number(random_);
    d_params_.resize(params_.size());
    train::Conv<double> conv(Layer{.op = Op::kConv,
                                   .out_channels = kOut,
                                   .in_channels = kIn,
                                   .kernel_px = 3,
                                   .padding_px = 1});
    const train::Tensor<double>* sources[] = {&src_};
    const train::SourceGradient<double> d_sources[] = {{.tensor = &d_src_}};
    conv.Begin(params_.data());
    conv.Forward(params_.data(), sources, dst_);
    conv.Backward(params_.data(), sources, dst_, d_dst_, d_sources, d_params_.data());
    conv.End(d_params_.data());
  }

  static Kn2Row::Tensor ToFloat(const train::Tensor<double>& tensor) {
    Kn2Row::Tensor result(tensor.grid(), tensor.channels());
    std::copy(tensor.values().begin(), tensor.values().end(), result.values().begin());
    return result;
  }

  // Relative to the root of the mean square.
  template <typename Expected, typename Found>
  static void ExpectNear(const Expected& expected, const Found& found) {
    ASSERT_EQ(expected.size(), found.size());
    double squares = 0;
    for (const double value : expected) squares += value * value;
    const double limit = 1e-4 * std::sqrt(squares / static_cast<double>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], limit) << i;
  }

  void ExpectAllParts(train::ProductFunction<float> multiply) const {
    Kn2Row kn2row(kIn, kOut, multiply);
    kn2row.SetParameters(std::vector<float>(params_.begin(), params_.end()));
    const Kn2Row::Tensor src = ToFloat(src_), d_dst = ToFloat(d_dst_);
    Kn2Row::Tensor dst(kGrid, kOut), d_src(kGrid, kIn);
    kn2row.Forward(src, dst);
    ExpectNear(dst_.values(), dst.values());
    kn2row.GetSourceGradient(d_dst, d_src);
    ExpectNear(d_src_.values(), d_src.values());
    kn2row.GetBiasGradient(d_dst);
    for (const auto part : {&Kn2Row::GetWeightGradient, &Kn2Row::GetWeightGradientBatched}) {
      (kn2row.*part)(src, d_dst);
      ExpectNear(d_params_, kn2row.ParameterGradient());
    }
  }

  std::mt19937_64 random_{test::FreshRandom()()};
  train::Tensor<double> src_, d_dst_, dst_, d_src_;
  std::vector<double> params_, d_params_;
};

TEST_F(Kn2RowTest, ComputesAConvolutionAndItsDerivatives) {
  ExpectAllParts(train::ProductFor<float>(cpu::ListIsas().front()));
}

TEST_F(Kn2RowTest, ComputesThemByOnednn) {
  if (OnednnProduct() == nullptr) GTEST_SKIP() << "this build has no oneDNN";
  ExpectAllParts(OnednnProduct());
}

}  // namespace
}  // namespace upscaled::bench
