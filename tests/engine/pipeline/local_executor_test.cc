#include "engine/pipeline/local_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/run_image.h"

namespace upscaled {
namespace {

using test::FakeBackend;
using test::FakeExecutable;

const auto& Network1x() {
  static const auto& executable =
      *new std::shared_ptr<const Executable>(std::make_shared<FakeExecutable>(1));
  return executable;
}

// Tiles of a black image, a pixel each, side by side.
class Tiles {
 public:
  explicit Tiles(int count) : source_({count, 1, 3, SampleType::kU8}) {
    std::fill_n(source_.mutable_view().data, source_.bytes(), uint8_t{0});
    result_ = Image(source_.spec());
    for (int i = 0; i < count; ++i) {
      const Rect tile{i, 0, 1, 1};
      tasks_.push_back(test::MakeTask(*Network1x(), source_.view(), tile, result_.mutable_view(),
                                      {0, 0, count, 1}));
    }
  }
  const std::vector<TileTask>& tasks() const { return tasks_; }

 private:
  Image source_, result_;
  std::vector<TileTask> tasks_;
};

TEST(LocalExecutor, RunsTilesInOrderOnOneStream) {
  Tiles tiles(20);
  std::vector<int> order;
  FakeBackend backend(1, [&](const TileTask& task) {
    order.push_back(task.plan->tile.x);
    return absl::OkStatus();
  });
  std::vector<size_t> done;
  MakeLocalExecutor(backend)->Submit(Network1x(), tiles.tasks(), nullptr,
                                     [&](size_t i, const absl::Status& status) {
                                       EXPECT_TRUE(status.ok()) << status;
                                       done.push_back(i);
                                     });
  // The executor's end waited for all of them.
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(done[i], static_cast<size_t>(i));
  }
}

TEST(LocalExecutor, RunsAsManyTilesAtOnceAsThereAreStreams) {
  Tiles tiles(3);
  absl::Barrier* all_running = new absl::Barrier(3);  // ends only when three are in it
  FakeBackend backend(3, [&](const TileTask&) {
    if (all_running->Block()) delete all_running;
    return absl::OkStatus();
  });
  const auto executor = MakeLocalExecutor(backend);
  EXPECT_EQ(executor->concurrency(), 3);
  absl::BlockingCounter left(3);
  executor->Submit(Network1x(), tiles.tasks(), nullptr,
                   [&](size_t, const absl::Status&) { left.DecrementCount(); });
  left.Wait();
}

TEST(LocalExecutor, PassesAStreamsErrorOn) {
  Tiles tiles(3);
  FakeBackend backend(1, [](const TileTask& task) {
    return task.plan->tile.x == 1 ? absl::InternalError("lost device") : absl::OkStatus();
  });
  std::vector<absl::Status> statuses(3);
  MakeLocalExecutor(backend)->Submit(
      Network1x(), tiles.tasks(), nullptr,
      [&](size_t i, const absl::Status& status) { statuses[i] = status; });
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(statuses[1], absl::InternalError("lost device"));
  EXPECT_TRUE(statuses[2].ok());
}

TEST(LocalExecutor, DropsQueuedTilesAtOnceAndLetsRunningOnesFinish) {
  Tiles tiles(10), others(2);
  absl::Notification running, resume;
  FakeBackend backend(1, [&](const TileTask& task) {
    if (task.plan->image.width == 10) {
      running.Notify();
      resume.WaitForNotification();
    }
    return absl::OkStatus();
  });
  const auto executor = MakeLocalExecutor(backend);
  // Its end right after the last TileDone shows whether the executor still touches it.
  auto cancellation = std::make_unique<Cancellation>();
  std::atomic<int> dropped = 0, finished = 0;
  absl::Notification all_done;
  executor->Submit(Network1x(), tiles.tasks(), cancellation.get(),
                   [&](size_t i, const absl::Status& status) {
                     if (status.ok()) {
                       EXPECT_EQ(i, 0u);
                       ++finished;
                       cancellation.reset();
                       all_done.Notify();
                     } else {
                       EXPECT_EQ(status, absl::CancelledError("enough"));
                       ++dropped;
                     }
                   });
  absl::BlockingCounter others_left(2);
  executor->Submit(Network1x(), others.tasks(), nullptr, [&](size_t, const absl::Status& s) {
    EXPECT_TRUE(s.ok()) << s;
    others_left.DecrementCount();
  });
  running.WaitForNotification();
  cancellation->Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(dropped, 9);
  EXPECT_EQ(finished, 0);
  resume.Notify();
  all_done.WaitForNotification();
  EXPECT_EQ(finished, 1);
  others_left.Wait();
}

TEST(LocalExecutor, RefusesTilesOfARequestThatIsCancelledAlready) {
  Tiles tiles(4);
  std::atomic<int> ran = 0;
  FakeBackend backend(1, [&](const TileTask&) {
    ++ran;
    return absl::OkStatus();
  });
  Cancellation cancellation;
  cancellation.Cancel(absl::DeadlineExceededError("late"));
  int dropped = 0;
  const auto executor = MakeLocalExecutor(backend);
  executor->Submit(Network1x(), tiles.tasks(), &cancellation,
                   [&](size_t, const absl::Status& status) {
                     EXPECT_EQ(status, absl::DeadlineExceededError("late"));
                     ++dropped;
                   });
  EXPECT_EQ(dropped, 4);
  EXPECT_EQ(ran, 0);
}

// Cancels at random moments; every tile must be done exactly once (run under tsan).
TEST(LocalExecutor, SurvivesCancellationAtAnyMoment) {
  FakeBackend backend(3);
  const auto executor = MakeLocalExecutor(backend);
  for (int round = 0; round < 200; ++round) {
    Tiles tiles(8);
    std::optional<Cancellation> cancellation(std::in_place);
    absl::BlockingCounter left(8);
    std::atomic<int> done[8] = {};
    executor->Submit(Network1x(), tiles.tasks(), &*cancellation,
                     [&](size_t i, const absl::Status&) {
                       ++done[i];
                       left.DecrementCount();
                     });
    if (round % 2 == 0) cancellation->Cancel(absl::CancelledError("enough"));
    left.Wait();
    for (const auto& times : done) EXPECT_EQ(times, 1);
    cancellation.reset();
  }
}

}  // namespace
}  // namespace upscaled
