#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/pipeline/choose_passes.h"
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

ModelCard Card(const Variants& variants, const char* name = "m") {
  ModelCard card;
  card.name = name;
  for (const auto& [scale, noise] : variants) card.variants.push_back({scale, noise, {}});
  return card;
}

// The passes from 100x50 to `scale` times that.
absl::StatusOr<ChosenPasses> ChooseOf(std::vector<const ModelCard*> models, double scale,
                                      int noise) {
  const Size result{static_cast<int>(100 * scale), static_cast<int>(50 * scale)};
  return ChoosePasses(models, {100, 50}, result, noise);
}

Variants Choose(const ModelCard& card, double scale, int noise) {
  const auto chosen = ChooseOf({&card}, scale, noise);
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  Variants variants;
  if (!chosen.ok()) return variants;
  for (const ModelPass& pass : chosen->passes) {
    EXPECT_EQ(pass.model, &card);
    variants.emplace_back(pass.variant->scale, pass.variant->noise_level);
  }
  return variants;
}

// "name scale,noise" of each pass of several models.
std::vector<std::string> Chain(const std::vector<const ModelCard*>& models, double scale,
                               int noise = kNoDenoise) {
  const auto chosen = ChooseOf(models, scale, noise);
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  std::vector<std::string> passes;
  if (!chosen.ok()) return passes;
  for (const ModelPass& pass : chosen->passes) {
    passes.push_back(
        absl::StrCat(pass.model->name, " ", pass.variant->scale, ",", pass.variant->noise_level));
  }
  return passes;
}

std::vector<std::string> Warnings(const std::vector<const ModelCard*>& models, double scale) {
  const auto chosen = ChooseOf(models, scale, kNoDenoise);
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  return chosen.ok() ? chosen->warnings : std::vector<std::string>();
}

std::string ChainError(const std::vector<const ModelCard*>& models, double scale, int noise) {
  const auto chosen = ChooseOf(models, scale, noise);
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(chosen.status().message());
}

std::string Error(const ModelCard& card, double scale, int noise) {
  return ChainError({&card}, scale, noise);
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
  const ModelCard* const models[] = {&Upconv()};
  const auto chosen = ChoosePasses(models, {100, 100}, {150, 300}, -1);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->passes.size(), 2u);
}

TEST(ChoosePasses, MakesNoMoreThanFourTimesTheResultsPixels) {
  const auto count = [](Size source, Size result) {
    const ModelCard* const models[] = {&Upconv()};
    const auto chosen = ChoosePasses(models, source, result, -1);
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    return chosen.ok() ? chosen->passes.size() : 0;
  };
  EXPECT_EQ(count({100, 100}, {100, 400}), 2u);  // 4 x 4 a source pixel for 1 x 4
  EXPECT_EQ(count({100, 100}, {99, 400}), 1u);
  EXPECT_EQ(count({20000, 5000}, {20000, 80000}), 3u);
  EXPECT_EQ(count({20000, 5000}, {1000, 80000}), 1u);  // the model has no smaller step
  // For all sizes, and without a loss if the aspect ratio stays.
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

TEST(ChoosePasses, RunsAModelOfScaleOneWheneverItIsNamed) {
  const ModelCard dejpg = Card({{1, -1}}, "dejpg");
  for (const double scale : {0.5, 1.0, 1.5, 2.0, 16.0}) {
    EXPECT_THAT(Choose(dejpg, scale, -1), ElementsAre(Pair(1, -1))) << scale;
  }
  EXPECT_THAT(Choose(Card({{1, 2}}), 1, -1), ElementsAre(Pair(1, 2))) << "its only level";
  EXPECT_THAT(Choose(Card({{1, 1}, {1, 2}}), 1, 2), ElementsAre(Pair(1, 2)));
  EXPECT_THAT(Error(Card({{1, 1}, {1, 2}}), 1, -1),
              AllOf(HasSubstr("level -1"), HasSubstr("1, 2")));
  EXPECT_THAT(Error(dejpg, 1, 1), HasSubstr("level 1"));
}

TEST(ChoosePasses, RunsTheNetworkOfScaleOneOfAModelThatHasOthers) {
  const ModelCard card = Card({{1, -1}, {2, -1}});
  EXPECT_THAT(Choose(card, 1, -1), ElementsAre(Pair(1, -1)));
  EXPECT_THAT(Choose(card, 2, -1), ElementsAre(Pair(2, -1)));
}

TEST(ChoosePasses, TellsOfModelsThatDidNotDoWhatTheirNameSays) {
  const ModelCard dejpg = Card({{1, -1}}, "dejpg"), sharp = Card({{1, -1}}, "sharp");
  const ModelCard foo = Card({{4, -1}}, "foo");
  EXPECT_THAT(Warnings({&dejpg}, 1), IsEmpty());
  EXPECT_THAT(Warnings({&dejpg}, 2),
              ElementsAre(AllOf(HasSubstr("dejpg is a 1x model"), HasSubstr("200x100"))));
  EXPECT_THAT(Warnings({&dejpg, &sharp}, 0.5),
              ElementsAre(AllOf(HasSubstr("dejpg,sharp are 1x models"), HasSubstr("50x25"))));
  EXPECT_THAT(Warnings({&foo}, 4), IsEmpty());
  EXPECT_THAT(Warnings({&foo}, 3), IsEmpty());
  EXPECT_THAT(Warnings({&foo}, 1), ElementsAre(HasSubstr("foo did not run")));
  EXPECT_THAT(Warnings({&dejpg, &foo}, 1), ElementsAre(HasSubstr("foo did not run")));
  EXPECT_THAT(Warnings({&dejpg, &foo}, 2), IsEmpty());
}

TEST(ChoosePasses, RunsTheModelsOfAChainInOrder) {
  const ModelCard dejpg = Card({{1, -1}}, "dejpg"), sharp = Card({{1, -1}}, "sharp");
  const ModelCard foo = Card({{4, -1}}, "foo"), bar = Card({{2, -1}, {2, 0}, {2, 1}}, "bar");
  EXPECT_THAT(Chain({&dejpg, &foo}, 4), ElementsAre("dejpg 1,-1", "foo 4,-1"));
  EXPECT_THAT(Chain({&dejpg, &foo, &sharp}, 2),
              ElementsAre("dejpg 1,-1", "foo 4,-1", "sharp 1,-1"));
  EXPECT_THAT(Chain({&dejpg, &dejpg}, 1), ElementsAre("dejpg 1,-1", "dejpg 1,-1"));
  // The last that enlarges goes on until the size is reached, the others run once.
  EXPECT_THAT(Chain({&dejpg, &bar, &sharp}, 4),
              ElementsAre("dejpg 1,-1", "bar 2,-1", "bar 2,-1", "sharp 1,-1"));
  EXPECT_THAT(Chain({&bar, &foo}, 8), ElementsAre("bar 2,-1", "foo 4,-1"));
  EXPECT_THAT(Chain({&foo, &bar}, 16), ElementsAre("foo 4,-1", "bar 2,-1", "bar 2,-1"));
  EXPECT_THAT(Chain({&foo, &bar}, 4), ElementsAre("foo 4,-1")) << "it is reached";
  EXPECT_THAT(Warnings({&foo, &bar}, 4), ElementsAre(HasSubstr("bar did not run")));
}

TEST(ChoosePasses, HasTheFirstModelOfAChainDenoiseThatCan) {
  const ModelCard dejpg = Card({{1, -1}}, "dejpg"), bar = Card({{2, -1}, {2, 1}}, "bar");
  EXPECT_THAT(Chain({&dejpg, &bar, &bar}, 4, 1), ElementsAre("dejpg 1,-1", "bar 2,1", "bar 2,-1"));
  EXPECT_THAT(Chain({&dejpg, &bar}, 1, 1), ElementsAre("dejpg 1,-1", "bar 2,1"));
  EXPECT_THAT(ChainError({&dejpg, &bar}, 2, 3),
              AllOf(HasSubstr("dejpg,bar"), HasSubstr("noise level 3")));
}

TEST(ChoosePasses, LimitsWhatAChainEnlargesBy) {
  const ModelCard foo = Card({{4, -1}}, "foo");
  const ModelCard* const two[] = {&foo, &foo};
  EXPECT_EQ(NativeScale(two), 16);
  EXPECT_EQ(Chain({&foo, &foo}, 16).size(), 2u);
  EXPECT_THAT(ChainError({&foo, &foo, &foo}, 16, -1),
              AllOf(HasSubstr("enlarge by 64"), HasSubstr("limit is 16")));
}

}  // namespace
}  // namespace upscaled
