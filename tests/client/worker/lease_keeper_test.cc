#include "client/worker/lease_keeper.h"

#include <atomic>

#include "gtest/gtest.h"
#include "tests/server/jobs/idle_queue.h"
#include "tests/support/await.h"

namespace upscaled::client {
namespace {

// Counts heartbeats.
class CountingQueue final : public server::IdleQueue {
 public:
  absl::Status Extend(const server::LeasedJob&, absl::Duration,
                      const server::JobProgress&) override {
    ++beats;
    return absl::OkStatus();
  }

  std::atomic<int> beats = 0;
};

// Sleeps take no time, and the system's clock is set back by an hour in each.
class ClockSetBack final : public RetryClock {
 public:
  absl::Time Now() override { return absl::UnixEpoch() - absl::Hours(1) * sleeps.load(); }
  void Sleep(absl::Duration duration, std::stop_token) override {
    slept_ms += absl::ToInt64Milliseconds(duration);
    ++sleeps;
  }
  double Random() override { return 0; }

  std::atomic<int64_t> sleeps = 0, slept_ms = 0;
};

TEST(LeaseKeeperTest, BeatsWhateverTheClockIsSetTo) {
  CountingQueue queue;
  ClockSetBack clock;
  const server::LeasedJob job{.id = "a"};
  int beats = 0;
  int64_t slept_ms = 0;
  {
    LeaseKeeper keeper(queue, job, absl::Seconds(30), clock);
    test::Await([&] { return clock.sleeps >= 1000; });
    slept_ms = clock.slept_ms;
    beats = queue.beats;
  }
  EXPECT_GE(beats + 1, slept_ms / 10'000) << "one for every third of the term";
  EXPECT_GT(beats, 100);
}

}  // namespace
}  // namespace upscaled::client
