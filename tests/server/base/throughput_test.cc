#include "server/base/throughput.h"

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(ThroughputMeterTest, IdleTimeDoesNotCountAndTheFastPastFades) {
  ThroughputMeter meter;
  absl::Time now = absl::FromUnixSeconds(0);
  EXPECT_EQ(meter.TimeFor(100), absl::ZeroDuration());
  meter.Record(now, false, 0);
  meter.Record(now += absl::Seconds(2), true, 1000);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(500)), 1, 1e-6);
  meter.Record(now += absl::Hours(9), false, 0);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(500)), 1, 1e-6);
  for (int i = 0; i < 20; ++i) meter.Record(now += absl::Seconds(10), true, 100);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(10)), 1, 0.1) << "now at 10 pixels a second";
  meter.Record(now - absl::Seconds(5), true, 0);  // a clock that was set back
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(10)), 1, 0.1);
}

TEST(ThroughputMeterTest, KnowsOfNoMoreThanItsTimeConstant) {
  ThroughputMeter meter(absl::Seconds(5));
  EXPECT_EQ(meter.busy(), absl::ZeroDuration());
  meter.Add(absl::Seconds(1), 1);
  EXPECT_EQ(meter.busy(), absl::Seconds(1));
  for (int i = 0; i < 1000; ++i) meter.Add(absl::Milliseconds(100), 1);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.busy()), 5, 0.1);
  meter.Add(absl::Seconds(5), 0);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(10)), 3.7, 0.1) << "half a constant's, and more";
}

TEST(ThroughputMeterTest, CutShortItIsAsFastButKnowsOfLess) {
  ThroughputMeter meter;
  meter.KeepAtMost(absl::Seconds(1));
  EXPECT_FALSE(meter.known());
  meter.Add(absl::Seconds(2), 1000);
  meter.KeepAtMost(absl::Seconds(3));
  EXPECT_EQ(meter.busy(), absl::Seconds(2));
  meter.KeepAtMost(absl::Milliseconds(500));
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.busy()), 0.5, 1e-9);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(500)), 1, 1e-6);
}

TEST(ThroughputMeterTest, WorkOfAKnownTimeNeedsNoClock) {
  ThroughputMeter meter;
  EXPECT_FALSE(meter.known());
  meter.Add(absl::Seconds(2), 1000);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(500)), 1, 1e-6);
  for (int i = 0; i < 20; ++i) meter.Add(absl::Seconds(10), 100);
  EXPECT_NEAR(absl::ToDoubleSeconds(meter.TimeFor(10)), 1, 0.1) << "now at 10 a second";
}

}  // namespace
}  // namespace upscaled::server
