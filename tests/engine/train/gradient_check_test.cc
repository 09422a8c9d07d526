// Every step's derivatives against central differences in double, and that the check finds wrong
// ones.
#include "engine/train/gradient_check.h"

#include <cmath>

#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

TEST(GradientCheckTest, EveryStepHasItsDerivatives) {
  const std::vector<StepError> errors = CheckSteps(test::FreshRandom()());
  EXPECT_EQ(errors.size(), 19u);
  for (const StepError& step : errors) EXPECT_LE(step.error, kMaxStepError) << step.step;
}

TEST(GradientCheckTest, FindsAWrongDerivative) {
  std::mt19937_64 random(1);
  std::vector<double> values = {1, 2, 3};
  const auto function = [&] { return values[0] * values[1] + std::sin(values[2]); };
  const std::vector<size_t> places = {0, 1, 2};
  const std::vector<double> right = {2, 1, std::cos(3.0)};
  EXPECT_LE(DerivativeError(function, values, places, right, {}, random), 1e-8);
  std::vector<double> wrong = right;
  wrong[1] = 1.001;
  EXPECT_NEAR(DerivativeError(function, values, places, wrong, {}, random), 0.0005, 1e-6);
  const auto constant = [] { return 1.0; };
  EXPECT_TRUE(std::isinf(DerivativeError(constant, values, places, right, {}, random)));
}

}  // namespace
}  // namespace upscaled::train
