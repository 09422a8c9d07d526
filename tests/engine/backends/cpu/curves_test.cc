// The curved activations, on every instruction set, against double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "gtest/gtest.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cpu::Isa;

struct TestedCurve {
  Activation activation;
  double (*exact)(double v);
};

constexpr TestedCurve kCurves[] = {
    {Activation::kSigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
    {Activation::kSilu, [](double v) { return v / (1 + std::exp(-v)); }},
    {Activation::kMish, [](double v) { return v * std::tanh(std::log1p(std::exp(v))); }},
    {Activation::kGelu, [](double v) { return v * std::erfc(-v / std::numbers::sqrt2) / 2; }},
    {Activation::kGeluTanh,
     [](double v) {
       return v / (1 + std::exp(-std::sqrt(8 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
     }},
    {Activation::kSoftplus,
     [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); }},
};

// The tolerance, of the exact value or of a tenth of the argument, if that is less.
constexpr double kCurveTolerance = 6e-7;

class CurvesTest : public ::testing::TestWithParam<Isa> {};

TEST_P(CurvesTest, AreExactToTheLastDigits) {
  std::vector<float> values = {0,
                               -0.0f,
                               1e-40f,
                               -1e-40f,
                               87.9f,
                               -87.9f,
                               1e30f,
                               -1e30f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest()};
  std::mt19937 random = test::FreshRandom();
  std::uniform_real_distribution<float> anywhere(-100, 100), near(-8, 8);
  while (values.size() < 100'000) {
    values.push_back(anywhere(random));
    values.push_back(near(random));
  }
  for (const TestedCurve& curve : kCurves) {
    SCOPED_TRACE(std::string(ActivationName(curve.activation)));
    std::vector<float> results = values;  // all but the first, which aligns none
    cpu::CurveFunctionFor(GetParam())(cpu::KindOf(curve.activation), results.data() + 1,
                                      results.size() - 1);
    EXPECT_EQ(results[0], values[0]) << "was written";
    double worst = 0, at = 0;
    for (size_t i = 1; i < values.size(); ++i) {
      const double v = values[i], exact = curve.exact(v);
      ASSERT_FALSE(std::isnan(results[i])) << "at " << v;
      const double unit = std::max({std::abs(exact), std::abs(v) / 10, 1e-38});
      const double error = std::abs(results[i] - exact) / unit;
      if (error <= worst) continue;
      worst = error;
      at = v;
    }
    EXPECT_LE(worst, kCurveTolerance) << "at " << at;
  }
}

TEST_P(CurvesTest, KeepWhatIsNotANumber) {
  for (const TestedCurve& curve : kCurves) {
    float value = std::nanf("");
    cpu::CurveFunctionFor(GetParam())(cpu::KindOf(curve.activation), &value, 1);
    EXPECT_TRUE(std::isnan(value)) << ActivationName(curve.activation) << " gives " << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, CurvesTest, ::testing::ValuesIn(cpu::ListIsas()),
                         [](const auto& info) { return std::string(cpu::IsaName(info.param)); });

}  // namespace
}  // namespace upscaled
