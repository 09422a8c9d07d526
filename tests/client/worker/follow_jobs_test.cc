// The jobs seen by `upscale jobs follow`.
#include "client/cli/follow_jobs.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/sqlite_queue.h"
#include "tests/client/fake_clock.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;

// Each of its sleeps is a step of the other events.
class SteppingClock final : public RetryClock {
 public:
  explicit SteppingClock(std::vector<std::function<void()>> steps) : steps_(std::move(steps)) {}
  absl::Time Now() override { return absl::Now(); }
  void Sleep(absl::Duration, std::stop_token) override { steps_.at(next_++)(); }
  double Random() override { return 0; }
  bool is_over() const { return next_ == steps_.size(); }

 private:
  const std::vector<std::function<void()>> steps_;
  size_t next_ = 0;
};

class FollowJobsTest : public ::testing::Test {
 protected:
  absl::StatusOr<bool> Follow(std::vector<std::string> ids,
                              std::vector<std::function<void()>> steps, std::stop_token stop = {}) {
    SteppingClock clock(std::move(steps));
    const auto on_change = [this](const server::JobInfo& job) {
      seen_.push_back(
          absl::StrCat(job.id, " ", server::JobStateName(job.state), " ", job.progress.tiles_done));
    };
    auto result = FollowJobs(*queue_, std::move(ids), on_change, clock, std::move(stop));
    EXPECT_TRUE(clock.is_over());
    return result;
  }

  TempFolder folder_;
  FakeClock clock_;
  std::unique_ptr<server::JobQueue> queue_ =
      *server::SqliteQueue::Open(folder_ / "queue", [this] { return clock_.Now(); });
  std::vector<std::string> seen_;
};

TEST_F(FollowJobsTest, TellsEachChangeUntilAllHaveEnded) {
  ASSERT_TRUE(queue_->Enqueue({{{.id = "a"}, {.id = "b"}}}).ok());
  server::LeasedJob a;
  const auto all_done =
      Follow({"a", "b"},
             {[&] { a = **queue_->Lease(absl::Minutes(1)); },
              [&] { (void)queue_->Extend(a, absl::Minutes(1), {.tiles_done = 7, .tiles = 8}); },
              [] {}, [&] { (void)queue_->Complete(a, ""); }, [&] { (void)queue_->Cancel("b"); }});
  ASSERT_TRUE(all_done.ok()) << all_done.status();
  EXPECT_FALSE(*all_done);
  EXPECT_THAT(seen_, ElementsAre("a waiting 0", "b waiting 0", "a running 0", "a running 7",
                                 "a done 7", "b cancelled 0"));
  EXPECT_TRUE(*Follow({"a"}, {}));
}

TEST_F(FollowJobsTest, EndsWhenItIsToldTo) {
  ASSERT_TRUE(queue_->Enqueue({{{.id = "a"}}}).ok());
  EXPECT_TRUE(absl::IsNotFound(Follow({"nobody"}, {}).status()));
  std::stop_source stop;
  const auto ended = Follow({"a"}, {[&] { stop.request_stop(); }}, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(ended.status())) << ended.status();
}

}  // namespace
}  // namespace upscaled::client
