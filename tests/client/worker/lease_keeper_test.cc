#include "client/worker/lease_keeper.h"

#include <atomic>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/await.h"

namespace upscaled::client {
namespace {

// Counts heartbeats.
class CountingQueue final : public server::JobQueue {
 public:
  absl::Status Enqueue(std::span<const server::NewJob>) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<server::LeasedJob>> Lease(absl::Duration) override {
    return std::nullopt;
  }
  absl::Status Extend(const server::LeasedJob&, absl::Duration,
                      const server::JobProgress&) override {
    ++beats;
    return absl::OkStatus();
  }
  absl::Status Complete(const server::LeasedJob&, const std::string&) override {
    return absl::OkStatus();
  }
  absl::Status Fail(const server::LeasedJob&, const std::string&) override {
    return absl::OkStatus();
  }
  absl::Status Retry(const server::LeasedJob&, const std::string&, absl::Duration) override {
    return absl::OkStatus();
  }
  absl::Status HandBack(const server::LeasedJob&) override { return absl::OkStatus(); }
  absl::Status Cancel(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<server::JobInfo>> List(const server::JobFilter&) override {
    return std::vector<server::JobInfo>();
  }
  absl::StatusOr<std::map<server::JobState, int64_t>> Count() override {
    return std::map<server::JobState, int64_t>();
  }
  absl::StatusOr<int> ForgetEnded(absl::Duration, int) override { return 0; }
  absl::StatusOr<bool> TakeTurn(const std::string&, absl::Duration) override { return true; }

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
