#include "server/batching/run_watch.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/server/batching/gated_backend.h"

namespace upscaled::server {
namespace {

TEST(RunWatchTest, AllowsATimesTheForecastBesideTheSlack) {
  const GatedDevice device(1);
  RunWatch watch;
  const RunWatch::Run quick = watch.Begin(device.device, /*cost=*/1000, /*speed=*/1e6);
  const RunWatch::Run slow = watch.Begin(device.device, 30'000'000, 1e6);  // 30 s, as forecast
  const RunWatch::Run unknown = watch.Begin(device.device, 360'000'000'000, 0);
  EXPECT_TRUE(watch.Advance(RunWatch::kSlack).empty());
  EXPECT_EQ(watch.Advance(absl::Seconds(1)).size(), 1u);
  EXPECT_EQ(watch.Advance(absl::Minutes(2)).size(), 1u) << "the same one is stuck";
  EXPECT_TRUE(watch.Advance(absl::Minutes(7)).empty());
  const auto overdue = watch.Advance(absl::Minutes(1));
  ASSERT_EQ(overdue.size(), 1u);
  EXPECT_EQ(overdue[0].device, device.device);
  EXPECT_EQ(overdue[0].taken, absl::Minutes(12) + absl::Seconds(1));
  EXPECT_EQ(watch.Advance(absl::Minutes(2)).size(), 1u);
  EXPECT_TRUE(watch.Advance(absl::Minutes(47)).empty());
  EXPECT_EQ(watch.Advance(absl::Minutes(2)).size(), 1u);
}

TEST(RunWatchTest, ARunThatDoesNotReturnIsStuck) {
  const GatedDevice device(1);
  RunWatch watch;
  const RunWatch::Run run = watch.Begin(device.device, 1, 1e6);
  auto found = watch.Advance(RunWatch::kSlack + absl::Seconds(1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].stuck);
  EXPECT_TRUE(watch.Advance(RunWatch::kSlack - absl::Seconds(1)).empty());
  found = watch.Advance(absl::Seconds(1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].stuck);
  EXPECT_TRUE(watch.Advance(absl::Hours(10)).empty()) << "each is told once";
}

TEST(RunWatchTest, NoForecastIsLongerThanAnHour) {
  const GatedDevice device(1);
  RunWatch watch;
  const RunWatch::Run run = watch.Begin(device.device, 100'000'000'000'000, 0);
  EXPECT_TRUE(watch.Advance(absl::Hours(1)).empty());
  EXPECT_EQ(watch.Advance(RunWatch::kSlack).size(), 1u);
}

TEST(RunWatchTest, RunsThatHaveEndedAreNeverOverdue) {
  const GatedDevice device(1);
  RunWatch watch;
  const auto begin = [&] {
    return std::unique_ptr<RunWatch::Run>(new RunWatch::Run(watch.Begin(device.device, 1, 1)));
  };
  auto first = begin(), second = begin();
  first.reset();
  EXPECT_EQ(watch.Advance(absl::Hours(1)).size(), 1u);
  second.reset();
  EXPECT_TRUE(watch.Advance(absl::Hours(1)).empty());
}

}  // namespace
}  // namespace upscaled::server
