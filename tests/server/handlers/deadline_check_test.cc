#include "server/handlers/deadline_check.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

// Devices of `streams` streams that compute so much a second each.
DeviceClassWork Class(int64_t stream_speed, int streams) {
  DeviceClassWork device_class{.idle = false, .streams = streams};
  device_class.stream_speed.Add(absl::Seconds(2), 2 * stream_speed);
  return device_class;
}

TEST(DeadlineCheckTest, AdmitsWhatItKnowsNoSpeedOf) {
  const std::vector<DeviceClassWork> classes = {{.streams = 2}, Class(10, 1)};
  EXPECT_TRUE(CheckDeadline(classes, {.cost = 1000}, absl::Seconds(1)).ok());
  EXPECT_FALSE(CheckDeadline(classes, {.device_class = 1, .cost = 1000}, absl::Seconds(1)).ok());
}

TEST(DeadlineCheckTest, AllStreamsComputeWhatIsAheadAndAsManyTheImageAsItHasTiles) {
  const std::vector<DeviceClassWork> classes = {Class(100, 4)};
  // 3 s for what is ahead, 2 s for one tile on one stream.
  const ImageWork image{.cost = 200, .tiles = 1, .cost_ahead = 1200};
  EXPECT_TRUE(CheckDeadline(classes, image, absl::Seconds(5)).ok());
  const absl::Status refusal = CheckDeadline(classes, image, absl::Milliseconds(4500));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kDeadlineInfeasible);
  EXPECT_EQ(std::string(refusal.message()),
            "the image would take 5s, 3s of that for what is queued ahead of it, and the call's "
            "deadline is in 4.5s; as much time would do in 500ms");
  EXPECT_EQ(RetryDelayOf(refusal), absl::Milliseconds(500));
  EXPECT_EQ(MetadataOf(refusal).at("estimate"), "5s");
  EXPECT_EQ(MetadataOf(refusal).at("deadline"), "4.5s");
  EXPECT_TRUE(
      CheckDeadline(classes, {.cost = 200, .tiles = 9, .cost_ahead = 1200}, absl::Seconds(3.5))
          .ok());
}

TEST(DeadlineCheckTest, WhatSlowClientsHoldDoesNotKeepIdleDevices) {
  std::vector<DeviceClassWork> classes = {Class(100, 1)};
  const ImageWork image{.cost = 200, .tiles = 1, .cost_ahead = 1200};
  EXPECT_FALSE(CheckDeadline(classes, image, absl::Seconds(3)).ok());
  classes.front().idle = true;
  EXPECT_TRUE(CheckDeadline(classes, image, absl::Seconds(3)).ok());
}

TEST(DeadlineCheckTest, NeverComesBackForAnImageThatAloneIsTooLarge) {
  const absl::Status refusal =
      CheckDeadline(std::vector{Class(100, 1)}, {.cost = 200}, absl::Seconds(1));
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kDeadlineInfeasible);
  EXPECT_EQ(RetryDelayOf(refusal), std::nullopt);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("deadline is in 1s"));
  const absl::Status late =
      CheckDeadline(std::vector{Class(100, 1)}, {.cost = 200}, -absl::Seconds(1));
  EXPECT_THAT(std::string(late.message()), HasSubstr("deadline is in 0"));
}

TEST(DeadlineCheckTest, DevicesOfOtherClassesShareWhatIsAhead) {
  const std::vector<DeviceClassWork> classes = {Class(100, 1), Class(300, 3)};
  EXPECT_TRUE(CheckDeadline(classes, {.cost = 100, .cost_ahead = 2000}, absl::Seconds(3)).ok());
}

}  // namespace
}  // namespace upscaled::server
