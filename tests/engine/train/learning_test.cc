// Losses, Adam and mini-batches over threads.
#include <cmath>
#include <string>

#include "engine/model/loader.h"
#include "engine/train/adam.h"
#include "engine/train/gradient_check.h"
#include "engine/train/learner.h"
#include "engine/train/loss.h"
#include "engine/train/parameters.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

TEST(LossTest, DerivativesAreCentralDifferences) {
  std::mt19937_64 random(test::FreshRandom()());
  const Grid grid{3, {9, 7}};
  for (const LossWeights& weights :
       {LossWeights{.l1 = 1}, LossWeights{.charbonnier = 1}, LossWeights{.log_squared_error = 1},
        LossWeights{.colour_mean = 1}, kPsnrLoss}) {
    Tensor<double> result(grid, 3), target(grid, 3), d_result(grid, 3), ignored(grid, 3);
    FillPixels(result, random);  // never closer to the target than that to 0
    const auto loss = [&] { return ComputeLoss(weights, result, target, 5, ignored); };
    ComputeLoss(weights, result, target, 5, d_result);
    EXPECT_LE(
        DerivativeError(loss, result.values(), PixelsOf(result), d_result.values(), {}, random),
        1e-6);
  }
}

TEST(LossTest, SaysItsTerms) {
  EXPECT_EQ(LossText(kPsnrLoss), "0.1 log squared error + 2 colour mean");
  EXPECT_EQ(LossText({.l1 = 1}), "1 L1");
}

TEST(LossTest, IsWhatItsTermsSay) {
  const Grid grid{2, {4, 3}};
  Tensor<double> result(grid, 3), target(grid, 3), d(grid, 3);
  for (const size_t place : PixelsOf(result)) result.values()[place] = 0.25;
  EXPECT_NEAR(ComputeLoss({.l1 = 1}, result, target, 2, d), 0.25, 1e-12);
  EXPECT_NEAR(ComputeLoss({.l1 = 1}, result, target, 4, d), 0.125, 1e-12);
  EXPECT_NEAR(ComputeLoss({.charbonnier = 1}, result, target, 2, d), std::hypot(0.25, 0.01), 1e-12);
  EXPECT_NEAR(ComputeLoss({.log_squared_error = 1}, result, target, 2, d), std::log(0.0625 + 1e-6),
              1e-12);
  EXPECT_NEAR(ComputeLoss({.colour_mean = 3}, result, target, 2, d), 0.75, 1e-12);
}

// The paper's algorithm in double; the state is kept in float.
TEST(AdamTest, FollowsThePaper) {
  std::mt19937 random = test::FreshRandom();
  std::uniform_real_distribution<float> number(-1, 1);
  Learned learned({0.5f, -0.25f});
  double x[2] = {0.5, -0.25}, m[2] = {}, v[2] = {};
  for (int step = 1; step <= 50; ++step) {
    const std::vector<float> gradient = {number(random), number(random)};
    AdamStep(gradient, 0.01, learned);
    for (int i = 0; i < 2; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * gradient[i];
      v[i] = 0.99 * v[i] + 0.01 * gradient[i] * gradient[i];
      x[i] -= 0.01 * (m[i] / (1 - std::pow(0.9, step))) /
              (std::sqrt(v[i] / (1 - std::pow(0.99, step))) + 1e-8);
      ASSERT_NEAR(learned.parameters[i], x[i], 1e-5);
    }
  }
  EXPECT_EQ(learned.steps, 50);
  EXPECT_NE(learned.average, learned.parameters);
}

TEST(AdamTest, ClipsLongGradientsAlone) {
  std::vector<float> gradient = {3, -4};
  EXPECT_DOUBLE_EQ(ClipNorm(gradient, 10), 5);
  EXPECT_EQ(gradient, (std::vector<float>{3, -4}));
  EXPECT_DOUBLE_EQ(ClipNorm(gradient, 1), 5);
  EXPECT_NEAR(gradient[0], 0.6, 1e-6);
  EXPECT_NEAR(gradient[1], -0.8, 1e-6);
  gradient[0] = std::nanf("");
  EXPECT_FALSE(std::isfinite(ClipNorm(gradient, 1)));
}

TEST(ScheduleTest, RateWarmsUpAndFallsAsACosine) {
  const auto rate = [](int64_t step) { return RateAt(Schedule::kCosine, 1, step, 10'000); };
  EXPECT_NEAR(rate(0), 0.01, 1e-3);
  EXPECT_NEAR(rate(100), 1, 1e-3);
  EXPECT_NEAR(rate(5000), 0.5, 1e-3);
  EXPECT_NEAR(rate(10'000), 0.001, 1e-6);
}

TEST(ScheduleTest, OneCycleRisesAndFalls) {
  const auto rate = [](int64_t step) { return RateAt(Schedule::kOneCycle, 2, step, 1000); };
  EXPECT_NEAR(rate(0), 0.08, 1e-9);
  EXPECT_NEAR(rate(150), 1.04, 1e-9);
  EXPECT_NEAR(rate(300), 2, 1e-9);
  EXPECT_NEAR(rate(650), 1.001, 1e-9);
  EXPECT_NEAR(rate(1000), 0.002, 1e-9);
}

class LearnerTest : public ::testing::Test {
 protected:
  static Network Fast() {
    return LoadNetworkFile(UPSCALED_BUNDLED_MODELS "/fast-2x/model.param").value();
  }

  // The patch of a number is the same in every share.
  static void Fill(int patch, int image, Tensor<float>& input, Tensor<float>& target) {
    std::mt19937 random(patch + 1);
    std::uniform_real_distribution<float> number(0, 1);
    for (Tensor<float>* tensor : {&input, &target}) {
      for (int y = 0; y < tensor->grid().size.height; ++y) {
        float* line = tensor->line(tensor->grid().Line(image, y));
        for (int i = 0; i < 3 * tensor->grid().size.width; ++i) line[i] = number(random);
      }
    }
  }
};

TEST_F(LearnerTest, ThreadsShareAMiniBatch) {
  const Network network = Fast();
  const std::vector<float> parameters = ReadParameters(network);
  const auto one = *Learner::Create(network, 8, 5, 1), three = *Learner::Create(network, 8, 5, 3);
  std::vector<float> by_one, by_three, again;
  const double loss = one->Gradient(parameters, kPsnrLoss, Fill, by_one);
  EXPECT_NEAR(three->Gradient(parameters, kPsnrLoss, Fill, by_three), loss, 1e-6);
  for (size_t i = 0; i < by_one.size(); ++i) ASSERT_NEAR(by_one[i], by_three[i], 1e-4);
  three->Gradient(parameters, kPsnrLoss, Fill, again);
  EXPECT_EQ(again, by_three) << "bits must not change";
  const std::vector<double> errors = one->SquaredErrors(parameters, Fill, 13);
  const std::vector<double> errors_of_three = three->SquaredErrors(parameters, Fill, 13);
  for (int i = 0; i < 13; ++i) {
    EXPECT_GT(errors[i], 0.01);
    EXPECT_NEAR(errors_of_three[i], errors[i], 1e-6);
  }
}

TEST_F(LearnerTest, Learns) {
  const Network network = Fast();
  Learned learned(ReadParameters(network));
  const auto learner = *Learner::Create(network, 8, 4, 2);
  std::vector<float> gradient;
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    last = learner->Gradient(learned.parameters, {.l1 = 1}, Fill, gradient);
    if (i == 0) first = last;
    AdamStep(gradient, 1e-3, learned);
  }
  EXPECT_LT(last, 0.9 * first);
}

}  // namespace
}  // namespace upscaled::train
