#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/pipeline/upscaler.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ResolvedTarget ResolveBoth(const TargetSize& target, Size source, int model_scale = 2) {
  const auto resolved = ResolveTarget(target, source, model_scale);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.value_or(ResolvedTarget{});
}

// The result's size of a target that takes all of the source.
Size Resolve(const TargetSize& target, Size source, int model_scale = 2) {
  const ResolvedTarget resolved = ResolveBoth(target, source, model_scale);
  EXPECT_EQ(resolved.source, (Rect{0, 0, source.width, source.height}));
  return resolved.result;
}

std::string Error(const TargetSize& target, Size source) {
  const auto size = ResolveTarget(target, source, 2);
  EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(size.status().message());
}

TEST(ResolveTarget, TakesTheModelsScaleByDefault) {
  EXPECT_EQ(Resolve({}, {5, 7}), (Size{10, 14}));
  EXPECT_EQ(Resolve({}, {5, 7}, 1), (Size{5, 7}));
}

TEST(ResolveTarget, RoundsAScaleHalfUp) {
  EXPECT_EQ(Resolve({.scale = 1.5}, {5, 3}), (Size{8, 5}));
  EXPECT_EQ(Resolve({.scale = 3}, {5, 3}), (Size{15, 9}));
  EXPECT_EQ(Resolve({.scale = 0.5}, {5, 1}), (Size{3, 1}));
}

TEST(ResolveTarget, KeepsTheAspectRatioOfOneSide) {
  EXPECT_EQ(Resolve({.width_px = 1920}, {960, 540}), (Size{1920, 1080}));
  EXPECT_EQ(Resolve({.height_px = 1000}, {960, 540}), (Size{1778, 1000}));
  EXPECT_EQ(Resolve({.width_px = 3}, {2, 1}), (Size{3, 2}));
}

TEST(ResolveTarget, ContainsTheImageInBothSides) {
  EXPECT_EQ(Resolve({.width_px = 1000, .height_px = 1000}, {960, 540}), (Size{1000, 563}));
  EXPECT_EQ(Resolve({.width_px = 1000, .height_px = 1000}, {540, 960}), (Size{563, 1000}));
  EXPECT_EQ(Resolve({.width_px = 1920, .height_px = 1080}, {960, 540}), (Size{1920, 1080}));
  EXPECT_EQ(Resolve({.width_px = 10, .height_px = 1000}, {960, 540}), (Size{10, 6}));
  EXPECT_EQ(Resolve({.width_px = 10, .height_px = 10}, {1, 1000}), (Size{1, 10}));
  EXPECT_EQ(Resolve({.width_px = 10, .height_px = 10}, {1000, 1}), (Size{10, 1}));
}

TEST(ResolveTarget, StretchesToBothSides) {
  const TargetSize target{.width_px = 10, .height_px = 1000, .fit = Fit::kStretch};
  EXPECT_EQ(Resolve(target, {960, 540}), (Size{10, 1000}));
}

TEST(ResolveTarget, CoversBothSidesWithTheMiddle) {
  const auto cover = [](int width, int height, Size source) {
    return ResolveBoth({.width_px = width, .height_px = height, .fit = Fit::kCover}, source);
  };
  ResolvedTarget resolved = cover(500, 500, {960, 540});
  EXPECT_EQ(resolved.result, (Size{500, 500}));
  EXPECT_EQ(resolved.source, (Rect{210, 0, 540, 540}));
  resolved = cover(500, 500, {540, 961});
  EXPECT_EQ(resolved.source, (Rect{0, 210, 540, 540}));
  resolved = cover(1920, 1080, {960, 540});
  EXPECT_EQ(resolved.source, (Rect{0, 0, 960, 540}));
  // Never less than a pixel of the source.
  resolved = cover(1000, 1, {3, 3});
  EXPECT_EQ(resolved.source, (Rect{0, 1, 3, 1}));
  resolved = cover(1, 1000, {3, 3});
  EXPECT_EQ(resolved.source, (Rect{1, 0, 1, 3}));
}

TEST(ResolveTarget, TakesTheShortOrTheLongSide) {
  EXPECT_EQ(Resolve({.short_side_px = 1080}, {960, 540}), (Size{1920, 1080}));
  EXPECT_EQ(Resolve({.short_side_px = 1080}, {540, 960}), (Size{1080, 1920}));
  EXPECT_EQ(Resolve({.long_side_px = 1080}, {960, 540}), (Size{1080, 608}));
  EXPECT_EQ(Resolve({.long_side_px = 1080}, {540, 960}), (Size{608, 1080}));
  EXPECT_EQ(Resolve({.long_side_px = 7}, {3, 3}), (Size{7, 7}));
}

TEST(ResolveTarget, KeepsToTheMostPixels) {
  EXPECT_EQ(Resolve({.scale = 4, .max_pixels = 40'000}, {100, 100}), (Size{200, 200}));
  EXPECT_EQ(Resolve({.scale = 4, .max_pixels = 160'000}, {100, 100}), (Size{400, 400}));
  EXPECT_EQ(Resolve({.scale = 4, .max_pixels = 159'999}, {100, 100}), (Size{399, 399}));
  EXPECT_EQ(Resolve({.width_px = 300, .max_pixels = 1}, {100, 100}), (Size{1, 1}));
  EXPECT_EQ(Resolve({.max_pixels = int64_t{1} << 40}, {5, 7}), (Size{10, 14}));
  const TargetSize cover{.width_px = 100, .height_px = 50, .fit = Fit::kCover, .max_pixels = 1250};
  EXPECT_EQ(ResolveBoth(cover, {100, 100}).result, (Size{50, 25}));
  EXPECT_EQ(ResolveBoth(cover, {100, 100}).source, (Rect{0, 25, 100, 50}));
}

TEST(ResolveTarget, EnlargesOnlyIfItMay) {
  EXPECT_EQ(Resolve({.width_px = 1920, .no_enlarge = true}, {960, 540}), (Size{960, 540}));
  EXPECT_EQ(Resolve({.width_px = 480, .no_enlarge = true}, {960, 540}), (Size{480, 270}));
  EXPECT_EQ(Resolve({.no_enlarge = true}, {960, 540}), (Size{960, 540}));
  const TargetSize stretch{
      .width_px = 2000, .height_px = 100, .fit = Fit::kStretch, .no_enlarge = true};
  EXPECT_EQ(Resolve(stretch, {960, 540}), (Size{960, 100}));
  const TargetSize cover{
      .width_px = 1000, .height_px = 500, .fit = Fit::kCover, .no_enlarge = true};
  EXPECT_EQ(ResolveBoth(cover, {100, 100}).result, (Size{100, 50}));
}

TEST(ResolveTarget, RefusesContradictions) {
  EXPECT_THAT(Error({.scale = 2, .width_px = 100}, {10, 10}), HasSubstr("contradict"));
}

TEST(ResolveTarget, RefusesNonsense) {
  EXPECT_THAT(Error({.scale = -1}, {10, 10}), HasSubstr("-1"));
  EXPECT_THAT(Error({.scale = std::numeric_limits<double>::quiet_NaN()}, {10, 10}),
              HasSubstr("nan"));
  EXPECT_THAT(Error({.width_px = -5}, {10, 10}), HasSubstr("-5"));
  EXPECT_THAT(Error({}, {0, 10}), HasSubstr("0x10"));
}

TEST(ResolveTarget, RefusesLessThanAPixel) {
  EXPECT_THAT(Error({.scale = 0.01}, {10, 100}), AllOf(HasSubstr("0x1"), HasSubstr("10x100")));
  EXPECT_THAT(Error({.width_px = 10}, {1000, 1}), HasSubstr("10x0"));
}

TEST(ResolveTarget, RefusesMoreThanTheLimit) {
  constexpr int kMax = std::numeric_limits<int>::max();
  for (const TargetSize& target :
       {TargetSize{.scale = 1e300}, TargetSize{.scale = std::numeric_limits<double>::infinity()},
        TargetSize{.width_px = kMax}, TargetSize{.width_px = 1000000, .height_px = 0}}) {
    EXPECT_THAT(Error(target, {1, kMax}), HasSubstr("limit of 1048576"));
  }
}

}  // namespace
}  // namespace upscaled
