// The filter in every instruction set against its definition.
#include "engine/image/bilateral.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "hwy/targets.h"
#include "tests/bench/image_kernels/reference/image_kernels.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FreshRandom;
using test::RandomInt;

Image FilterImage(const Image& image, const BilateralOptions& options, std::mt19937& random) {
  test::ViewRows rows(image.view());
  auto result = test::ReadAllInPortions(*MakeBilateral(rows, options), random);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

BilateralOptions AnyOptions(std::mt19937& random) {
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  return {between(BilateralOptions::kMinSigma, 4), between(BilateralOptions::kMinSigma, 100)};
}

// In 16-bit steps: 256 of them are a level of 8 bits.
void ExpectNear(const Image& actual, const Image& expected) {
  ASSERT_EQ(actual.spec(), expected.spec());
  const int samples = actual.spec().width_px * actual.spec().channels;
  for (int y = 0; y < actual.spec().height_px; ++y) {
    for (int i = 0; i < samples; ++i) {
      ASSERT_NEAR(actual.view().row_as<uint16_t>(y)[i], expected.view().row_as<uint16_t>(y)[i], 2)
          << "row " << y << ", sample " << i;
    }
  }
}

TEST(BilateralTest, IsItsDefinitionInEveryInstructionSet) {
  std::mt19937 random = FreshRandom();
  int sets = 0;
  for (int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1, ++sets) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (int round = 0; round < 24; ++round) {
      const ImageSpec spec{RandomInt(random, 1, 70), RandomInt(random, 1, 30), round % 4 + 1,
                           round / 4 % 2 ? SampleType::kU16 : SampleType::kU8};
      const BilateralOptions options = AnyOptions(random);
      SCOPED_TRACE(::testing::Message()
                   << hwy::TargetName(left & -left) << ", " << spec << ", sigma "
                   << options.sigma_space << " and " << options.sigma_range);
      // Soft edges and noise are mixed, hard edges are kept, and alpha of a drawing hides pixels.
      const Image image = round % 3 ? test::ArtImage(spec, random) : test::PhotoImage(spec, random);
      ExpectNear(FilterImage(image, options, random), reference::Bilateral(image.view(), options));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(sets, 1);
}

TEST(BilateralTest, RemovesNoiseAndKeepsTheEdge) {
  std::mt19937 random = FreshRandom();
  Image image({40, 30, 3, SampleType::kU8});
  for (int y = 0; y < 30; ++y) {
    for (int i = 0; i < 40 * 3; ++i) {
      image.mutable_view().row(y)[i] = (i < 20 * 3 ? 50 : 200) + RandomInt(random, -6, 6);
    }
  }
  const Image result = FilterImage(image, {2, 20}, random);
  double variance = 0;
  for (int y = 0; y < 30; ++y) {
    for (int i = 0; i < 40 * 3; ++i) {
      const double off = result.view().row_as<uint16_t>(y)[i] / 257.0 - (i < 20 * 3 ? 50 : 200);
      EXPECT_LT(std::abs(off), 6.001);
      variance += off * off / (30 * 40 * 3);
    }
  }
  EXPECT_LT(variance, 14.0 / 4);  // the noise's
}

TEST(BilateralTest, LeavesHiddenPixelsAloneAndOutOfTheMeans) {
  std::mt19937 random = FreshRandom();
  const Image image = test::ArtImage({50, 40, 4, SampleType::kU8}, random);
  Image other({50, 40, 4, SampleType::kU8});
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 50; ++x) {
      const uint8_t* from = image.view().row(y) + 4 * x;
      uint8_t* to = other.mutable_view().row(y) + 4 * x;
      for (int c = 0; c < 4; ++c) to[c] = from[3] == 0 && c < 3 ? 255 - from[c] : from[c];
    }
  }
  const Image a = FilterImage(image, {3, 255}, random), b = FilterImage(other, {3, 255}, random);
  for (int y = 0; y < 40; ++y) {
    for (int i = 0; i < 50 * 4; ++i) {
      const bool hidden = image.view().row(y)[i / 4 * 4 + 3] == 0;
      const uint16_t same = image.view().row(y)[i] * 257;
      if (hidden || i % 4 == 3) {
        EXPECT_EQ(a.view().row_as<uint16_t>(y)[i], same);
      } else {
        EXPECT_EQ(a.view().row_as<uint16_t>(y)[i], b.view().row_as<uint16_t>(y)[i]);
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
