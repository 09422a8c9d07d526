#include "server/base/stall_meter.h"

#include <gtest/gtest.h>

namespace upscaled::server {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr int64_t kMinBytes = 1000;

class StallMeterTest : public ::testing::Test {
 protected:
  absl::Duration Patience() const { return meter_.Patience(now_); }
  void WaitFor(absl::Duration time) {
    meter_.BeginWait(now_);
    now_ += time;
    meter_.EndWait(now_);
  }

  absl::Time now_ = absl::UnixEpoch();
  StallMeter meter_{kTimeout, kMinBytes};
};

TEST_F(StallMeterTest, CountsTheTimeOfWaitingAlone) {
  EXPECT_EQ(Patience(), kTimeout);
  now_ += absl::Hours(1);
  EXPECT_EQ(Patience(), kTimeout);
  WaitFor(absl::Seconds(20));
  now_ += absl::Hours(1);
  EXPECT_EQ(Patience(), absl::Seconds(40));
  meter_.BeginWait(now_);
  now_ += absl::Seconds(30);
  EXPECT_EQ(Patience(), absl::Seconds(10));
  now_ += absl::Seconds(30);
  EXPECT_EQ(Patience(), absl::ZeroDuration());
}

TEST_F(StallMeterTest, LittleAtATimeIsNoProgress) {
  for (int second = 0; second < 59; ++second) {
    WaitFor(absl::Seconds(1));
    meter_.Move(kMinBytes / 100, now_);
  }
  EXPECT_EQ(Patience(), absl::Seconds(1));
  WaitFor(absl::Seconds(1));
  EXPECT_EQ(Patience(), absl::ZeroDuration());
}

TEST_F(StallMeterTest, EnoughBytesStartAnew) {
  for (int half = 0; half < 10; ++half) {
    WaitFor(absl::Seconds(25));
    meter_.Move(kMinBytes / 2, now_);
    EXPECT_GT(Patience(), absl::ZeroDuration());
  }
}

TEST_F(StallMeterTest, ARestartDuringAWaitCountsFromThere) {
  meter_.BeginWait(now_);
  now_ += absl::Seconds(50);
  meter_.Restart(now_);
  now_ += absl::Seconds(50);
  EXPECT_EQ(Patience(), absl::Seconds(10));
}

}  // namespace
}  // namespace upscaled::server
