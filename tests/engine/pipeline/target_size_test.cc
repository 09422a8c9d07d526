#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/pipeline/upscaler.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Size Resolve(const TargetSize& target, Size source, int model_scale = 2) {
  const auto size = ResolveTargetSize(target, source, model_scale);
  EXPECT_TRUE(size.ok()) << size.status();
  return size.value_or(Size{});
}

std::string Error(const TargetSize& target, Size source) {
  const auto size = ResolveTargetSize(target, source, 2);
  EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(size.status().message());
}

TEST(ResolveTargetSize, TakesTheModelsScaleByDefault) {
  EXPECT_EQ(Resolve({}, {5, 7}), (Size{10, 14}));
  EXPECT_EQ(Resolve({}, {5, 7}, 1), (Size{5, 7}));
}

TEST(ResolveTargetSize, RoundsAScaleHalfUp) {
  EXPECT_EQ(Resolve({.scale = 1.5}, {5, 3}), (Size{8, 5}));
  EXPECT_EQ(Resolve({.scale = 3}, {5, 3}), (Size{15, 9}));
  EXPECT_EQ(Resolve({.scale = 0.5}, {5, 1}), (Size{3, 1}));
}

TEST(ResolveTargetSize, KeepsTheAspectRatioOfOneSide) {
  EXPECT_EQ(Resolve({.width_px = 1920}, {960, 540}), (Size{1920, 1080}));
  EXPECT_EQ(Resolve({.height_px = 1000}, {960, 540}), (Size{1778, 1000}));
  EXPECT_EQ(Resolve({.width_px = 3}, {2, 1}), (Size{3, 2}));
}

TEST(ResolveTargetSize, TakesBothSidesAsTheyAre) {
  EXPECT_EQ(Resolve({.width_px = 10, .height_px = 1000}, {960, 540}), (Size{10, 1000}));
}

TEST(ResolveTargetSize, RefusesContradictions) {
  EXPECT_THAT(Error({.scale = 2, .width_px = 100}, {10, 10}), HasSubstr("contradicts"));
}

TEST(ResolveTargetSize, RefusesNonsense) {
  EXPECT_THAT(Error({.scale = -1}, {10, 10}), HasSubstr("-1"));
  EXPECT_THAT(Error({.scale = std::numeric_limits<double>::quiet_NaN()}, {10, 10}),
              HasSubstr("nan"));
  EXPECT_THAT(Error({.width_px = -5}, {10, 10}), HasSubstr("-5"));
  EXPECT_THAT(Error({}, {0, 10}), HasSubstr("0x10"));
}

TEST(ResolveTargetSize, RefusesLessThanAPixel) {
  EXPECT_THAT(Error({.scale = 0.01}, {10, 100}), AllOf(HasSubstr("0x1"), HasSubstr("10x100")));
  EXPECT_THAT(Error({.width_px = 10}, {1000, 1}), HasSubstr("10x0"));
}

TEST(ResolveTargetSize, RefusesMoreThanTheLimit) {
  constexpr int kMax = std::numeric_limits<int>::max();
  for (const TargetSize& target :
       {TargetSize{.scale = 1e300}, TargetSize{.scale = std::numeric_limits<double>::infinity()},
        TargetSize{.width_px = kMax}, TargetSize{.width_px = 1000000, .height_px = 0}}) {
    EXPECT_THAT(Error(target, {1, kMax}), HasSubstr("limit of 1048576"));
  }
}

}  // namespace
}  // namespace upscaled
