#include "server/handlers/deadline_check.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

// Devices of `streams` streams, each at this speed a second.
DeviceClassWork Class(int64_t stream_speed, int streams) {
  DeviceClassWork device_class{.idle = false, .streams = streams};
  device_class.stream_speed.Add(absl::Seconds(2), 2 * stream_speed);
  return device_class;
}

TEST(ForecastImageTest, SaysNothingWhileNoSpeedIsKnown) {
  const std::vector<DeviceClassWork> classes = {{.streams = 2}, Class(10, 1)};
  EXPECT_FALSE(ForecastImage(classes, {.stream_speed = 10, .cost = 1000}).has_value());
  EXPECT_FALSE(ForecastImage(classes, {.device_class = 1, .cost = 1000}).has_value());
  EXPECT_TRUE(
      ForecastImage(classes, {.device_class = 1, .stream_speed = 10, .cost = 1000}).has_value());
}

struct ForecastCase {
  const char* name;
  std::vector<DeviceClassWork> classes;
  ImageWork image;
  absl::Duration ahead, alone;
};

TEST(ForecastImageTest, CountsTheImagesOwnAtItsNetworksSpeedAndTheRestAtTheClasses) {
  const DeviceClassWork four = Class(100, 4);
  DeviceClassWork idle = Class(100, 1);
  DeviceClassWork idle_four = four;
  idle.idle = idle_four.idle = true;
  const ForecastCase cases[] = {
      {"one tile is for one stream, what is ahead for all",
       {four},
       {.stream_speed = 100, .cost = 200, .tiles = 1, .cost_ahead = 1200},
       absl::Seconds(3.6),
       absl::Seconds(2)},
      {"tiles are for as many streams",
       {four},
       {.stream_speed = 100, .cost = 200, .tiles = 9, .cost_ahead = 1200},
       absl::Seconds(3.6),
       absl::Seconds(0.5)},
      {"busy devices share no tile",
       {four},
       {.stream_speed = 100, .cost = 200, .tiles = 1, .streams_per_tile = 9},
       absl::ZeroDuration(),
       absl::Seconds(2)},
      {"idle ones do, but for the codec",
       {idle_four},
       {.stream_speed = 100,
        .cost = 200,
        .codec = absl::Seconds(4),
        .tiles = 1,
        .streams_per_tile = 9},
       absl::ZeroDuration(),
       absl::Seconds(4.5)},
      {"as far as a tile has room",
       {idle_four},
       {.stream_speed = 100, .cost = 200, .tiles = 1, .streams_per_tile = 2},
       absl::ZeroDuration(),
       absl::Seconds(1)},
      {"a slow network",
       {four},
       {.stream_speed = 10, .cost = 200, .tiles = 2, .cost_ahead = 1200},
       absl::Seconds(3.6),
       absl::Seconds(10)},
      {"the codec's time is a core's",
       {four},
       {.stream_speed = 100, .cost = 200, .codec = absl::Seconds(4), .tiles = 2},
       absl::ZeroDuration(),
       absl::Seconds(3)},
      {"what slow clients hold does not keep idle devices",
       {idle},
       {.stream_speed = 100, .cost = 200, .cost_ahead = 1200},
       absl::ZeroDuration(),
       absl::Seconds(2)},
      {"devices of other classes share what is ahead",
       {Class(100, 1), Class(300, 3)},
       {.stream_speed = 100, .cost = 100, .cost_ahead = 2000},
       absl::Seconds(2.4),
       absl::Seconds(1)}};
  // Work ahead takes a fifth more, as others pass in batches.
  for (const ForecastCase& c : cases) {
    const std::optional<Forecast> forecast = ForecastImage(c.classes, c.image);
    ASSERT_TRUE(forecast.has_value()) << c.name;
    EXPECT_EQ(forecast->ahead, c.ahead) << c.name;
    EXPECT_EQ(forecast->alone, c.alone) << c.name;
  }
}

TEST(ForecastImageTest, ALoadThatLastsPassesTheLaterTiles) {
  std::vector<DeviceClassWork> classes = {Class(100, 2)};
  ImageWork image{.stream_speed = 100,
                  .cost = 400,
                  .tiles = 4,
                  .cost_ahead = 1000,
                  .cost_ahead_if_lasting = 5000};
  const auto ahead = [&] { return ForecastImage(classes, image)->ahead; };
  EXPECT_EQ(ahead(), absl::Seconds(6)) << "it has just begun";
  classes[0].backlogged = {absl::Seconds(2), absl::Hours(1)};
  EXPECT_EQ(ahead(), absl::Seconds(6 + 8)) << "four times as long as until now";
  image.priority = Priority::kBackground;
  EXPECT_EQ(ahead(), absl::Seconds(6 + 15)) << "of four tiles three are passed";
  image.tiles = 1;
  EXPECT_EQ(ahead(), absl::Seconds(6));
}

TEST(CheckDeadlineTest, SaysWhatItWouldTakeAndWhenAsMuchTimeWouldDo) {
  const Forecast forecast{.ahead = absl::Seconds(3), .alone = absl::Seconds(2)};
  EXPECT_TRUE(CheckDeadline(forecast, absl::Seconds(5)).ok());
  EXPECT_TRUE(CheckDeadline(forecast, absl::InfiniteDuration()).ok());
  const absl::Status refusal = CheckDeadline(forecast, absl::Milliseconds(4500));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kDeadlineInfeasible);
  EXPECT_EQ(std::string(refusal.message()),
            "the image would take 5s, 3s of that for work ahead of it, and the call's "
            "deadline is in 4.5s; as much time would do in 500ms");
  EXPECT_EQ(RetryDelayOf(refusal), absl::Milliseconds(500));
  EXPECT_EQ(MetadataOf(refusal).at("estimate"), "5s");
  EXPECT_EQ(MetadataOf(refusal).at("deadline"), "4.5s");
}

TEST(CheckDeadlineTest, NeverComesBackForAnImageThatAloneIsTooLarge) {
  const Forecast forecast{.alone = absl::Seconds(20)};
  const absl::Status refusal = CheckDeadline(forecast, absl::Seconds(1));
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kDeadlineInfeasible);
  EXPECT_EQ(RetryDelayOf(refusal), std::nullopt);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("deadline is in 1s"));
  const absl::Status late = CheckDeadline(forecast, -absl::Seconds(1));
  EXPECT_THAT(std::string(late.message()), HasSubstr("deadline is in 0"));
  EXPECT_THAT(std::string(CheckDeadline(forecast, absl::Seconds(1), "tile").message()),
              HasSubstr("the tile would take 20s"));
}

}  // namespace
}  // namespace upscaled::server
