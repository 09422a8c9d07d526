#include "client/jobs/lease_keeper.h"

#include <atomic>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/await.h"

namespace upscaled::client {
namespace {

// Counts heartbeats.
class CountingQueue final : public JobQueue {
 public:
  absl::Status Enqueue(std::span<const NewJob>) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Duration) override { return std::nullopt; }
  absl::Status Extend(const LeasedJob&, absl::Duration, const JobProgress&) override {
    ++beats;
    return absl::OkStatus();
  }
  absl::Status Complete(const LeasedJob&, const std::string&) override { return absl::OkStatus(); }
  absl::Status Fail(const LeasedJob&, const std::string&) override { return absl::OkStatus(); }
  absl::Status Retry(const LeasedJob&, const std::string&, absl::Duration) override {
    return absl::OkStatus();
  }
  absl::Status HandBack(const LeasedJob&) override { return absl::OkStatus(); }
  absl::Status Cancel(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<JobInfo>> List(const JobFilter&) override {
    return std::vector<JobInfo>();
  }
  absl::StatusOr<std::map<JobState, int64_t>> Count() override {
    return std::map<JobState, int64_t>();
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
  const LeasedJob job{.id = "a"};
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
