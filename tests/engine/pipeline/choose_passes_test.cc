#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "engine/pipeline/upscaler.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Scale and noise level of each variant or pass.
using Variants = std::vector<std::pair<int, int>>;

ModelCard Card(const Variants& variants) {
  ModelCard card;
  card.name = "m";
  for (const auto& [scale, noise] : variants) card.variants.push_back({scale, noise, {}});
  return card;
}

Variants Choose(const ModelCard& card, double scale, int noise) {
  const Size source{100, 50};
  const Size result{static_cast<int>(100 * scale), static_cast<int>(50 * scale)};
  const auto passes = ChoosePasses(card, source, result, noise);
  EXPECT_TRUE(passes.ok()) << passes.status();
  Variants chosen;
  if (!passes.ok()) return chosen;
  for (const ModelVariant* pass : *passes) chosen.emplace_back(pass->scale, pass->noise_level);
  return chosen;
}

std::string Error(const ModelCard& card, double scale, int noise) {
  const Size result{static_cast<int>(100 * scale), static_cast<int>(50 * scale)};
  const auto passes = ChoosePasses(card, {100, 50}, result, noise);
  EXPECT_EQ(passes.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(passes.status().message());
}

const ModelCard& Upconv() {
  static const auto& card = *new ModelCard(Card({{2, -1}, {2, 0}, {2, 1}, {2, 2}, {2, 3}}));
  return card;
}

TEST(ChoosePasses, RepeatsTheModelUntilItReachesTheResult) {
  EXPECT_THAT(Choose(Upconv(), 2, -1), ElementsAre(Pair(2, -1)));
  EXPECT_THAT(Choose(Upconv(), 1.5, -1), ElementsAre(Pair(2, -1)));
  EXPECT_THAT(Choose(Upconv(), 2.1, -1), ElementsAre(Pair(2, -1), Pair(2, -1)));
  EXPECT_THAT(Choose(Upconv(), 8, -1), ElementsAre(Pair(2, -1), Pair(2, -1), Pair(2, -1)));
}

TEST(ChoosePasses, StopsAtSixteenfold) {
  EXPECT_EQ(Choose(Upconv(), 16, -1).size(), 4u);
  EXPECT_EQ(Choose(Upconv(), 1000, -1).size(), 4u);
}

TEST(ChoosePasses, NeedsNoneWhereNothingGrows) {
  EXPECT_THAT(Choose(Upconv(), 1, -1), IsEmpty());
  EXPECT_THAT(Choose(Upconv(), 0.3, -1), IsEmpty());
}

TEST(ChoosePasses, DenoisesInTheFirstPassAlone) {
  EXPECT_THAT(Choose(Upconv(), 4, 3), ElementsAre(Pair(2, 3), Pair(2, -1)));
}

TEST(ChoosePasses, TakesLevelZeroForFurtherPassesWithoutPlainVariant) {
  const ModelCard card = Card({{2, 0}, {2, 1}});
  EXPECT_THAT(Choose(card, 4, 1), ElementsAre(Pair(2, 1), Pair(2, 0)));
}

TEST(ChoosePasses, SaysWhenAFurtherPassHasNoWeights) {
  EXPECT_THAT(Error(Card({{2, 1}, {2, 2}}), 4, 2),
              AllOf(HasSubstr("beyond scale 2"), HasSubstr("1, 2")));
}

TEST(ChoosePasses, DenoisesWithoutEnlarging) {
  EXPECT_THAT(Choose(Upconv(), 1, 2), ElementsAre(Pair(2, 2)));
  EXPECT_THAT(Choose(Card({{2, 2}, {1, 2}}), 1, 2), ElementsAre(Pair(1, 2)));
  EXPECT_THAT(Choose(Card({{2, 2}, {1, 2}}), 0.5, 2), ElementsAre(Pair(1, 2)));
}

TEST(ChoosePasses, DenoisesFirstWhereOnlyScaleOneDoes) {
  const ModelCard vgg = Card({{1, 0}, {1, 1}, {2, -1}});
  EXPECT_THAT(Choose(vgg, 4, 1), ElementsAre(Pair(1, 1), Pair(2, -1), Pair(2, -1)));
}

TEST(ChoosePasses, PrefersTheLeastProductThenTheFewestPasses) {
  const ModelCard card = Card({{2, -1}, {3, -1}, {4, -1}});
  EXPECT_THAT(Choose(card, 3, -1), ElementsAre(Pair(3, -1)));
  EXPECT_THAT(Choose(card, 4, -1), ElementsAre(Pair(4, -1)));
  EXPECT_THAT(Choose(card, 6, -1), ElementsAre(Pair(2, -1), Pair(3, -1)));
  EXPECT_THAT(Choose(card, 5, -1), ElementsAre(Pair(2, -1), Pair(3, -1)));
}

TEST(ChoosePasses, GoesAsFarAsADenoiserCan) {
  EXPECT_THAT(Choose(Card({{1, 1}}), 3, 1), ElementsAre(Pair(1, 1)));
}

TEST(ChoosePasses, ReachesTheLongerWayOfAStretchedResult) {
  const auto passes = ChoosePasses(Upconv(), {100, 100}, {150, 300}, -1);
  ASSERT_TRUE(passes.ok());
  EXPECT_EQ(passes->size(), 2u);
}

TEST(ChoosePasses, MakesNoMoreThanFourTimesTheResultsPixels) {
  const auto count = [](Size source, Size result) {
    const auto passes = ChoosePasses(Upconv(), source, result, -1);
    EXPECT_TRUE(passes.ok()) << passes.status();
    return passes.ok() ? passes->size() : 0;
  };
  EXPECT_EQ(count({100, 100}, {100, 400}), 2u);  // 4 x 4 a source pixel for 1 x 4
  EXPECT_EQ(count({100, 100}, {99, 400}), 1u);
  EXPECT_EQ(count({20000, 5000}, {20000, 80000}), 3u);
  EXPECT_EQ(count({20000, 5000}, {1000, 80000}), 1u);  // the model has no smaller step
  // Whatever the sizes, and without a loss where the aspect ratio stays.
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 1000; ++round) {
    const Size source{test::RandomInt(random, 1, 3000), test::RandomInt(random, 1, 3000)};
    const Size result{test::RandomInt(random, 1, 30000), test::RandomInt(random, 1, 30000)};
    const auto factor = int64_t{1} << count(source, result);
    EXPECT_LE(factor * factor * source.Area(), std::max(4 * source.Area(), 4 * result.Area()))
        << source.width << "x" << source.height << " to " << result.width << "x" << result.height;
    const int scale = test::RandomInt(random, 2, 16);
    EXPECT_GE(1 << count(source, {scale * source.width, scale * source.height}), scale);
  }
}

TEST(ChoosePasses, ResizesRatherThanMakeFarTooMuch) {
  const ModelCard card = Card({{4, -1}});
  EXPECT_THAT(Choose(card, 1.5, -1), ElementsAre(Pair(4, -1)));
  EXPECT_THAT(Choose(card, 7.9, -1), ElementsAre(Pair(4, -1)));
  EXPECT_THAT(Choose(card, 8, -1), ElementsAre(Pair(4, -1), Pair(4, -1)));
}

TEST(ChoosePasses, NamesTheLevelsThereAre) {
  EXPECT_THAT(Error(Card({{2, -1}, {2, 1}}), 2, 3),
              AllOf(HasSubstr("level 3"), HasSubstr("-1, 1")));
  EXPECT_THAT(Error(Card({{2, 1}, {2, 3}}), 2, -1),
              AllOf(HasSubstr("level -1"), HasSubstr("1, 3")));
}

}  // namespace
}  // namespace upscaled
