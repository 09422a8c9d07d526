#include "server/batching/tile_scheduler.h"

#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/batching/gated_backend.h"
#include "tests/server/batching/outcomes.h"
#include "tests/server/batching/test_scheduler.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class TileSchedulerTest : public ::testing::Test {
 protected:
  // One stream, held by a tile named -1 until the test releases it.
  void Occupy(RequestFlow& flow) {
    flow.Submit(other_, {NamedTile(-1)}, nullptr, occupied_.done());
    backend_.AwaitStarted(1);
  }

  FakeClock clock_;
  GatedDevice gated_{1};
  GatedBackend& backend_ = gated_.backend;
  std::shared_ptr<const DeviceExecutable> model_ = NetworkOn({gated_.device});
  std::shared_ptr<const DeviceExecutable> other_ = NetworkOn({gated_.device});
  Outcomes occupied_{1};
  size_t runs_ = 0;
};

TEST_F(TileSchedulerTest, ALoneTileIsDispatchedAtOnce) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Outcomes outcomes(1);
  request.Submit(model_, {NamedTile(7)}, nullptr, outcomes.done());
  const auto runs = backend_.AwaitStarted(1);  // although the clock stands still
  EXPECT_EQ(runs[0].executable, model_->On(*gated_.device));
  EXPECT_THAT(runs[0].tiles, ElementsAre(7));
  EXPECT_EQ(scheduler.load().running_tiles, 1);
  backend_.Release();
  outcomes.Await();
  EXPECT_THAT(outcomes.statuses(), Each(absl::OkStatus()));
}

TEST_F(TileSchedulerTest, CoalescesTilesOfOneExecutableWhileBusy) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto a = scheduler.OpenFlow({model_, other_}), b = scheduler.OpenFlow({model_, other_}),
       c = scheduler.OpenFlow({model_, other_});
  Occupy(a);
  Outcomes outcomes_a(2), outcomes_b(1), outcomes_c(2);
  a.Submit(model_, NamedTiles(10, 2), nullptr, outcomes_a.done());
  b.Submit(other_, NamedTiles(20, 1), nullptr, outcomes_b.done());
  c.Submit(model_, NamedTiles(30, 2), nullptr, outcomes_c.done());
  EXPECT_EQ(scheduler.load().queued_tiles, 5);
  EXPECT_EQ(scheduler.load().queued_cost, 5);
  backend_.Release();
  auto runs = backend_.AwaitStarted(2);
  EXPECT_EQ(runs[1].executable, other_->On(*gated_.device))
      << "b had no service yet, and came before c";
  EXPECT_THAT(runs[1].tiles, ElementsAre(20));
  backend_.Release();
  runs = backend_.AwaitStarted(3);
  EXPECT_EQ(runs[2].executable, model_->On(*gated_.device));
  EXPECT_THAT(runs[2].tiles, ElementsAre(30, 10, 31, 11));
  backend_.Release();
  outcomes_a.Await(), outcomes_b.Await(), outcomes_c.Await();
  EXPECT_EQ(scheduler.load().queued_tiles, 0);
  EXPECT_EQ(scheduler.load().queued_cost, 0);
}

TEST_F(TileSchedulerTest, ASharedRequestHasThePlaceOfItsBestWaiter) {
  TestScheduler scheduler({gated_.device}, clock_, {.max_batch_cost = 1});
  const Payer crowd{.address = "crowd"}, alone{.address = "alone"};
  const auto payers = std::make_shared<Payers>();
  payers->Add(1, crowd);
  std::vector<RequestFlow> backlog;
  for (int i = 0; i < 10; ++i) backlog.push_back(scheduler.OpenFlow({model_, other_}, crowd));
  RequestFlow shared = scheduler.OpenFlow({model_, other_}, crowd, payers);
  Occupy(backlog[0]);
  Outcomes outcomes(11);
  const auto submit = [&](RequestFlow& flow, int name) {
    flow.Submit(model_, {NamedTile(name)}, nullptr,
                [done = outcomes.done(), name](size_t, const absl::Status& status) {
                  done(static_cast<size_t>(name), status);
                });
  };
  for (int i = 0; i < 10; ++i) submit(backlog[i], i);
  submit(shared, 10);
  EXPECT_EQ(shared.payer().address, "crowd");
  payers->Add(2, alone);
  EXPECT_EQ(shared.payer().address, "alone");
  payers->Remove(2);
  EXPECT_EQ(shared.payer().address, "crowd") << "its place is the others' again";
  payers->Add(3, alone);
  EXPECT_EQ(shared.payer_changes(), 3);
  backend_.Open();
  outcomes.Await();
  EXPECT_THAT(backend_.AwaitStarted(2)[1].tiles, ElementsAre(10));
  payers->Remove(3);
  payers->Remove(1);  // nothing is queued, and nobody waits
}

TEST_F(TileSchedulerTest, ABatchIsBoundedByCost) {
  TestScheduler scheduler({gated_.device}, clock_, {.max_batch_cost = 25});
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Outcomes outcomes(6);
  std::vector<TileTask> tiles = NamedTiles(0, 3, 10);
  tiles.push_back(NamedTile(3, 26));  // larger than any batch: runs alone
  tiles.push_back(NamedTile(4, 20));
  tiles.push_back(NamedTile(5, 5));  // fits exactly
  request.Submit(model_, tiles, nullptr, outcomes.done());
  backend_.Open();
  outcomes.Await();
  const auto runs = backend_.AwaitStarted(5);
  ASSERT_EQ(runs.size(), 5u);
  EXPECT_THAT(runs[1].tiles, ElementsAre(0, 1));
  EXPECT_THAT(runs[2].tiles, ElementsAre(2));
  EXPECT_THAT(runs[3].tiles, ElementsAre(3));
  EXPECT_THAT(runs[4].tiles, ElementsAre(4, 5));
}

TEST_F(TileSchedulerTest, AStreamLeavesTheOthersTheirShare) {
  GatedDevice gated(3);
  GatedBackend& backend = gated.backend;
  TestScheduler scheduler({gated.device}, clock_);
  EXPECT_EQ(scheduler.concurrency(), 3);
  const auto model = NetworkOn({gated.device});
  auto request = scheduler.OpenFlow({model});
  Outcomes outcomes(7);
  request.Submit(model, NamedTiles(0, 7), nullptr, outcomes.done());
  std::multiset<size_t> sizes;  // a third of 7, of the 4 that are left, of 2; each rounded up
  for (const auto& run : backend.AwaitStarted(3)) sizes.insert(run.tiles.size());
  EXPECT_THAT(sizes, ElementsAre(1, 2, 3));
  EXPECT_EQ(scheduler.load().queued_tiles, 1);
  backend.Open();
  outcomes.Await();
}

TEST_F(TileSchedulerTest, ALateSmallRequestOvertakesALargeOne) {
  TestScheduler scheduler({gated_.device}, clock_, {.max_batch_cost = 1});
  auto large = scheduler.OpenFlow({model_, other_}), small = scheduler.OpenFlow({model_, other_});
  Outcomes large_outcomes(40), small_outcomes(4);
  large.Submit(model_, NamedTiles(0, 40, 400), nullptr, large_outcomes.done());
  backend_.AwaitStarted(1);
  for (int i = 0; i < 9; ++i) backend_.Release();
  backend_.AwaitStarted(10);
  small.Submit(model_, NamedTiles(100, 4, 100), nullptr, small_outcomes.done());
  backend_.Open();
  small_outcomes.Await(), large_outcomes.Await();
  const auto runs = backend_.AwaitStarted(44);
  // Its four tiles weigh as much as one of the other's, and are due before the next of them.
  for (int i = 0; i < 4; ++i) EXPECT_THAT(runs[10 + i].tiles, ElementsAre(100 + i));
}

// Queued background tiles, and an interactive request with its tiles one by one.
class HoldTest : public TileSchedulerTest {
 protected:
  static Payer Background() {
    return {.tenant = "night",
            .limits = std::make_shared<TenantLimits>(
                TenantLimits{.tenant = "night", .priority = Priority::kBackground})};
  }
  // Runs a tile of the request, `name`, to its end.
  void RunOne(RequestFlow& request, int name) {
    Outcomes outcomes(1);
    request.Submit(model_, {NamedTile(name)}, nullptr, outcomes.done());
    backend_.Release();
    outcomes.Await();
  }

  TestScheduler scheduler_{{gated_.device}, clock_};
  RequestFlow background_ = scheduler_.OpenFlow({model_}, Background());
  Outcomes of_background_{3};
};

TEST_F(HoldTest, BackgroundWorkWaitsBetweenTheTilesOfAnImage) {
  auto image = scheduler_.OpenFlow({model_});
  image.ExpectTiles(true);
  background_.Submit(model_, NamedTiles(100, 3), nullptr, of_background_.done());
  for (int i = 0; i < 50; ++i) {
    RunOne(image, i);
    clock_.Advance(absl::Minutes(1));  // the server's own time for a band
  }
  auto runs = backend_.AwaitStarted(50);
  ASSERT_EQ(runs.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_THAT(runs[i].tiles, ElementsAre(i));
  image.ExpectTiles(false);
  backend_.Open();
  of_background_.Await();
}

TEST_F(HoldTest, BackgroundWorkDoesNotWaitLongForAClient) {
  auto image = scheduler_.OpenFlow({model_});
  image.ExpectTiles(true);
  background_.Submit(model_, NamedTiles(100, 3), nullptr, of_background_.done());
  {
    const RequestFlow::ClientWait wait(image);
    clock_.Advance(absl::Milliseconds(49));
  }
  clock_.Advance(absl::Minutes(1));
  RunOne(image, 0);
  EXPECT_EQ(of_background_.left(), 3);
  const RequestFlow::ClientWait wait(image);
  clock_.Advance(absl::Milliseconds(50));
  backend_.Open();
  of_background_.Await();
}

// However short each of its client's pauses is, they count together until it has tiles again.
TEST_F(HoldTest, BackgroundWorkDoesNotWaitForAClientThatTrickles) {
  auto image = scheduler_.OpenFlow({model_});
  const auto trickle = [&](absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Milliseconds(1)) {
      const RequestFlow::ClientWait wait(image);
      clock_.Advance(absl::Milliseconds(1));
    }
  };
  trickle(absl::Minutes(1));  // before there is anything to wait for
  image.ExpectTiles(true);
  background_.Submit(model_, NamedTiles(100, 3), nullptr, of_background_.done());
  for (int i = 0; i < 10; ++i) {
    trickle(absl::Milliseconds(49));
    RunOne(image, i);
  }
  const auto runs = backend_.AwaitStarted(10);
  ASSERT_EQ(runs.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(runs[i].tiles, ElementsAre(i));
  trickle(absl::Milliseconds(50));
  EXPECT_THAT(backend_.AwaitStarted(11)[10].tiles, ElementsAre(100));
  backend_.Open();
  of_background_.Await();
}

TEST_F(HoldTest, AClosedOrABackgroundRequestHoldsNobodyBack) {
  auto other = scheduler_.OpenFlow({model_}, Background());
  other.ExpectTiles(true);
  {
    auto image = scheduler_.OpenFlow({model_});
    image.ExpectTiles(true);
    background_.Submit(model_, NamedTiles(100, 3), nullptr, of_background_.done());
  }
  backend_.Open();
  of_background_.Await();
}

// Start-time fair queueing: while two requests both have tiles queued, the service they got differs
// by no more than the largest tile of each.
TEST_F(TileSchedulerTest, BackloggedRequestsShareTheDevicesFairly) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  TestScheduler scheduler({gated_.device}, clock_, {.max_batch_cost = 1});
  auto first = scheduler.OpenFlow({model_, other_});
  Occupy(first);
  constexpr int kRequests = 6;
  std::vector<RequestFlow> requests;
  std::vector<std::vector<int>> pixels(kRequests);
  std::vector<int> largest(kRequests);
  std::vector<std::unique_ptr<Outcomes>> all;
  for (int r = 0; r < kRequests; ++r) {
    const int tiles = 20 + random() % 30, max_pixels = 1 << random() % 10;
    std::vector<TileTask> tasks;
    for (int t = 0; t < tiles; ++t) {
      pixels[r].push_back(1 + random() % max_pixels);
      largest[r] = std::max(largest[r], pixels[r].back());
      tasks.push_back(NamedTile(r * 1000 + t, pixels[r].back()));
    }
    requests.push_back(scheduler.OpenFlow({model_, other_}));
    all.push_back(std::make_unique<Outcomes>(tiles));
    requests[r].Submit(model_, tasks, nullptr, all[r]->done());
  }
  backend_.Open();
  for (auto& one : all) one->Await();

  std::vector<int64_t> service(kRequests), next(kRequests);
  for (const auto& run : backend_.AwaitStarted(1)) {
    if (run.tiles[0] < 0) continue;
    const int r = run.tiles[0] / 1000, t = run.tiles[0] % 1000;
    EXPECT_EQ(t, next[r]++) << "the tiles of one request run in order";
    service[r] += pixels[r][t];
    for (int a = 0; a < kRequests; ++a) {
      for (int b = 0; b < kRequests; ++b) {
        const bool backlogged = next[a] < std::ssize(pixels[a]) && next[b] < std::ssize(pixels[b]);
        if (!backlogged) continue;
        EXPECT_LE(service[a] - service[b], largest[a] + largest[b]);
      }
    }
  }
  for (int r = 0; r < kRequests; ++r) EXPECT_EQ(next[r], std::ssize(pixels[r]));
}

TEST_F(TileSchedulerTest, CancellingDropsQueuedTilesAtOnce) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto a = scheduler.OpenFlow({model_, other_}), b = scheduler.OpenFlow({model_, other_});
  Cancellation cancellation;
  Outcomes running(1), queued(5), kept(2);
  a.Submit(model_, NamedTiles(0, 1), &cancellation, running.done());
  backend_.AwaitStarted(1);
  const auto count = queued.done();
  a.Submit(model_, NamedTiles(10, 5, 7), &cancellation,
           [&](size_t index, const absl::Status& status) {
             EXPECT_EQ(scheduler.load().queued_tiles, 2);  // and no lock is held
             count(index, status);
           });
  b.Submit(model_, NamedTiles(20, 2, 3), nullptr, kept.done());

  cancellation.Cancel(absl::DeadlineExceededError("3 s have passed"));
  EXPECT_EQ(queued.left(), 0);
  EXPECT_THAT(queued.statuses(),
              Each(IsStatus(absl::StatusCode::kDeadlineExceeded, "3 s have passed")));
  EXPECT_EQ(running.left(), 1);
  EXPECT_EQ(scheduler.load().queued_cost, 6);
  backend_.Open();
  running.Await(), kept.Await();
  EXPECT_THAT(running.statuses(), Each(absl::OkStatus())) << "what runs is finished";
  EXPECT_THAT(kept.statuses(), Each(absl::OkStatus()));
  EXPECT_EQ(backend_.AwaitStarted(2).size(), 2u);
}

// Infeasible where each of them walks the queue.
TEST_F(TileSchedulerTest, CancellingManySubmissionsTakesNoLongerForEach) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_}), other = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  constexpr int kSubmissions = 300'000;
  Cancellation cancellation;
  std::atomic<int> dropped = 0;
  for (int i = 0; i < kSubmissions; ++i) {
    request.Submit(model_, {NamedTile(i)}, &cancellation, [&](size_t, const absl::Status& status) {
      dropped += absl::IsCancelled(status);
    });
  }
  Outcomes kept(1);
  other.Submit(model_, {NamedTile(-2)}, nullptr, kept.done());
  cancellation.Cancel(absl::CancelledError("gone"));
  EXPECT_EQ(dropped, kSubmissions);
  EXPECT_EQ(scheduler.load().queued_tiles, 1);
  EXPECT_EQ(scheduler.load().queued_cost, 1);
  backend_.Open();
  kept.Await(), occupied_.Await();
}

TEST_F(TileSchedulerTest, ABatchIsBoundedByTimeOnceTheSpeedIsKnown) {
  TestScheduler scheduler({gated_.device}, clock_, {.max_batch_time = absl::Seconds(2)});
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Outcomes first(1), rest(7);
  request.Submit(other_, {NamedTile(0, 99)}, nullptr, first.done());
  request.Submit(model_, NamedTiles(10, 7, 10), nullptr, rest.done());
  clock_.Advance(absl::Seconds(5));
  backend_.Release();
  backend_.AwaitStarted(2);
  clock_.Advance(absl::Seconds(5));
  backend_.Open();  // 100 multiply-adds in 10 s
  first.Await(), rest.Await();
  EXPECT_THAT(backend_.AwaitStarted(3)[2].tiles, ElementsAre(10, 11));
}

TEST_F(TileSchedulerTest, ABatchThatWasCancelledSaysNothingOfTheSpeed) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  const auto run = [&](Cancellation* cancellation) {
    Outcomes outcomes(1);
    request.Submit(model_, {NamedTile(0, 100)}, cancellation, outcomes.done());
    backend_.AwaitStarted(++runs_);
    clock_.Advance(absl::Seconds(10));
    if (cancellation != nullptr) cancellation->Cancel(absl::CancelledError("gone"));
    backend_.Release();
    outcomes.Await();
    return scheduler.work()[0].speed.CostIn(absl::Seconds(1));
  };
  Cancellation cancellation;
  EXPECT_DOUBLE_EQ(run(nullptr), 10);
  EXPECT_DOUBLE_EQ(run(&cancellation), 10);
}

TEST_F(TileSchedulerTest, ACancelledRequestQueuesNothing) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("the client left"));
  Outcomes outcomes(3);
  request.Submit(model_, NamedTiles(0, 3), &cancellation, outcomes.done());
  EXPECT_EQ(outcomes.left(), 0);
  EXPECT_THAT(outcomes.statuses(), Each(IsStatus(absl::StatusCode::kCancelled, "client left")));
  EXPECT_EQ(scheduler.load().queued_tiles, 0);
}

// The worker drops a tile popped after its request was cancelled, and before the cancellation's
// callback got to the queue.
TEST_F(TileSchedulerTest, CancelledTilesAreDroppedAtThePop) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Cancellation cancellation;
  absl::Notification cancelled, go_on;
  auto registration = cancellation.OnCancel([&] {  // runs before the scheduler's own
    cancelled.Notify();
    go_on.WaitForNotification();
  });
  Outcomes outcomes(3);
  request.Submit(model_, NamedTiles(0, 3), &cancellation,
                 [&, count = outcomes.done()](size_t index, const absl::Status& status) {
                   if (index == 0) go_on.Notify();
                   count(index, status);
                 });
  std::thread canceller([&] { cancellation.Cancel(absl::CancelledError("gone")); });
  cancelled.WaitForNotification();
  backend_.Release();
  outcomes.Await();
  canceller.join();
  EXPECT_THAT(outcomes.statuses(), Each(IsStatus(absl::StatusCode::kCancelled, "gone")));
  EXPECT_EQ(backend_.AwaitStarted(1).size(), 1u);
  EXPECT_EQ(scheduler.load().queued_tiles, 0);
  EXPECT_EQ(request.usage().tiles, 1) << "dropped tiles cost nothing";
}

TEST_F(TileSchedulerTest, AFailingRunFailsItsTilesAndNothingElse) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Outcomes failed(2), fine(1), starved(1), full(1);
  request.Submit(model_, NamedTiles(0, 2), nullptr, failed.done());
  request.Submit(other_, NamedTiles(5, 1), nullptr, starved.done());
  request.Submit(model_, NamedTiles(7, 1), nullptr, full.done());
  request.Submit(other_, NamedTiles(9, 1), nullptr, fine.done());
  backend_.Release();
  for (int i = 0; i < 3; ++i) {  // together, and each alone
    backend_.Release([] { return absl::InvalidArgumentError("a tile too far"); });
  }
  backend_.Release([]() -> absl::Status { throw std::bad_alloc(); });
  backend_.Release([] { return absl::ResourceExhaustedError("no memory on the device"); });
  backend_.Release();
  failed.Await(), starved.Await(), full.Await(), fine.Await();
  EXPECT_THAT(failed.statuses(), Each(IsStatus(absl::StatusCode::kInvalidArgument, "too far")));
  EXPECT_THAT(starved.statuses(), Each(IsStatus(absl::StatusCode::kResourceExhausted,
                                                "out of memory while running 1 tile")));
  EXPECT_THAT(full.statuses(), Each(IsStatus(absl::StatusCode::kResourceExhausted, "no memory")));
  for (const Outcomes* ours : {&starved, &full}) {  // our fault, not the request's
    EXPECT_TRUE(RetryDelayOf(ours->statuses().front()).has_value());
  }
  EXPECT_THAT(fine.statuses(), Each(absl::OkStatus()));
}

// Errors of a tile itself, of the device's memory, and of the machine's.
TEST_F(TileSchedulerTest, ATilesErrorLeavesTheRestOfItsBatchAlone) {
  const std::vector<GatedBackend::Outcome> errors = {
      [] { return absl::InvalidArgumentError("a tile too far"); },
      [] { return absl::UnimplementedError("a tile too far"); },
      [] { return absl::ResourceExhaustedError("a tile too far"); },
      []() -> absl::Status { throw std::bad_alloc(); },
  };
  for (const GatedBackend::Outcome& error : errors) {
    GatedDevice gated{1};
    const auto model = NetworkOn({gated.device}), other = NetworkOn({gated.device});
    TestScheduler scheduler({gated.device}, clock_);
    auto hostile = scheduler.OpenFlow({model, other}), neighbour = scheduler.OpenFlow({model});
    Outcomes occupied(1), broken(1), fine(2);
    hostile.Submit(other, {NamedTile(-1)}, nullptr, occupied.done());
    gated.backend.AwaitStarted(1);
    neighbour.Submit(model, NamedTiles(0, 2), nullptr, fine.done());
    hostile.Submit(model, NamedTiles(7, 1), nullptr, broken.done());
    const auto run = [&](size_t number) { return gated.backend.AwaitStarted(number).back().tiles; };
    gated.backend.Release();
    ASSERT_THAT(run(2), UnorderedElementsAre(0, 1, 7)) << "one batch";
    gated.backend.Release(error);
    for (size_t number = 3; number <= 5; ++number) {
      const std::vector<int> alone = run(number);
      ASSERT_EQ(alone.size(), 1u);
      if (alone.front() == 7) {
        gated.backend.Release(error);
      } else {
        gated.backend.Release();
      }
    }
    broken.Await(), fine.Await();
    EXPECT_THAT(fine.statuses(), Each(absl::OkStatus()));
    EXPECT_FALSE(broken.statuses().front().ok());
    EXPECT_EQ(scheduler.load().running_tiles, 0);
    EXPECT_EQ(neighbour.usage().tiles, 2);
    EXPECT_EQ(hostile.usage().tiles, 1);
  }
}

// A tile after its cancellation, or after Stop, does not run once more.
TEST_F(TileSchedulerTest, AfterAFailedRunOnlyWantedTilesRunAlone) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Cancellation cancellation;
  Outcomes cancelled(1), kept(2), queued(1);
  request.Submit(model_, NamedTiles(0, 1), &cancellation, cancelled.done());
  request.Submit(model_, NamedTiles(1, 2), nullptr, kept.done());
  backend_.Release();
  ASSERT_EQ(backend_.AwaitStarted(2)[1].tiles.size(), 3u);
  cancellation.Cancel(absl::CancelledError("gone"));
  backend_.Release([] { return absl::InvalidArgumentError("broken"); });
  EXPECT_THAT(backend_.AwaitStarted(3)[2].tiles, ElementsAre(1));
  cancelled.Await();
  EXPECT_THAT(cancelled.statuses(), Each(IsStatus(absl::StatusCode::kCancelled, "gone")));

  request.Submit(other_, NamedTiles(9, 1), nullptr,
                 [&, count = queued.done()](size_t index, const absl::Status& status) {
                   count(index, status);
                   backend_.Release();  // the scheduler has begun to stop
                 });
  scheduler.Stop(absl::UnavailableError("shutting down"));
  EXPECT_EQ(kept.left(), 0);
  EXPECT_THAT(
      kept.statuses(),
      ElementsAre(absl::OkStatus(), IsStatus(absl::StatusCode::kUnavailable, "shutting down")));
  EXPECT_EQ(backend_.AwaitStarted(3).size(), 3u);
}

TEST_F(TileSchedulerTest, ARunThatFailsWhileStoppingIsNotTriedAgain) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Outcomes running(2), queued(1);
  request.Submit(model_, NamedTiles(0, 2), nullptr, running.done());
  backend_.Release();
  ASSERT_EQ(backend_.AwaitStarted(2)[1].tiles.size(), 2u);
  request.Submit(other_, NamedTiles(9, 1), nullptr,
                 [&, count = queued.done()](size_t index, const absl::Status& status) {
                   count(index, status);
                   backend_.Release([] { return absl::InvalidArgumentError("broken"); });
                   backend_.Open();
                 });
  scheduler.Stop(absl::UnavailableError("shutting down"));
  EXPECT_THAT(running.statuses(), Each(IsStatus(absl::StatusCode::kUnavailable, "shutting down")));
  EXPECT_EQ(backend_.AwaitStarted(2).size(), 2u);
}

TEST_F(TileSchedulerTest, StopFailsWhatIsQueuedAndFinishesWhatRuns) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Outcomes queued(4), late(1);
  request.Submit(model_, NamedTiles(0, 4), nullptr,
                 [&, count = queued.done()](size_t index, const absl::Status& status) {
                   count(index, status);
                   if (index == 3) backend_.Release();
                 });
  scheduler.Stop(absl::UnavailableError("shutting down"));
  EXPECT_EQ(occupied_.left(), 0);
  EXPECT_THAT(occupied_.statuses(), Each(absl::OkStatus()));
  EXPECT_EQ(queued.left(), 0);
  EXPECT_THAT(queued.statuses(), Each(IsStatus(absl::StatusCode::kUnavailable, "shutting down")));
  request.Submit(model_, NamedTiles(9, 1), nullptr, late.done());
  EXPECT_EQ(late.left(), 0);
  EXPECT_THAT(late.statuses(), Each(IsStatus(absl::StatusCode::kUnavailable, "shutting down")));
}

TEST_F(TileSchedulerTest, TheQueuedTilesOfAClosedFlowRunAllTheSame) {
  TestScheduler scheduler({gated_.device}, clock_);
  std::optional<RequestFlow> request(scheduler.OpenFlow({model_, other_}));
  Occupy(*request);
  Outcomes queued(1);
  request->Submit(model_, NamedTiles(0, 1), nullptr, queued.done());
  request.reset();
  backend_.Open();
  queued.Await();
  EXPECT_THAT(queued.statuses(), Each(absl::OkStatus()));
}

class RecordingObserver : public TileObserver {
 public:
  struct Batch {
    std::vector<absl::Duration> queue;
    absl::Duration infer;
    int64_t source_pixels;
    absl::Status status;
  };
  void OnBatch(const BatchReport& batch) override {
    absl::MutexLock lock(&mutex_);
    batches_.push_back(
        {{batch.queue.begin(), batch.queue.end()}, batch.infer, batch.source_pixels, batch.status});
  }
  void OnDropped(int64_t tiles) override {
    absl::MutexLock lock(&mutex_);
    dropped_ += tiles;
  }
  void OnMoved(int64_t) override { ADD_FAILURE() << "there is one device"; }
  std::vector<Batch> batches() const {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  int64_t dropped() const {
    absl::MutexLock lock(&mutex_);
    return dropped_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<Batch> batches_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A slow time must not keep calls out forever.
TEST_F(TileSchedulerTest, AStreamsSpeedIsForgottenAfterAMinuteWithoutWork) {
  TestScheduler scheduler({gated_.device}, clock_);
  EXPECT_FALSE(scheduler.work()[0].stream_speed.known());
  auto request = scheduler.OpenFlow({model_, other_});
  Outcomes outcomes(1);
  request.Submit(model_, NamedTiles(0, 1, 30), nullptr, outcomes.done());
  backend_.AwaitStarted(1);
  clock_.Advance(absl::Seconds(3));
  backend_.Release();
  outcomes.Await();
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(scheduler.work()[0].stream_speed.TimeFor(60), absl::Seconds(6));
  EXPECT_EQ(scheduler.work()[0].streams, 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(scheduler.work()[0].stream_speed.known());
}

TEST_F(TileSchedulerTest, EachNetworkHasASpeedOfItsOwn) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  auto run = [&, runs = 0](const auto& network, absl::Duration busy) mutable {
    Outcomes outcomes(1);
    request.Submit(network, NamedTiles(0, 1, 30), nullptr, outcomes.done());
    backend_.AwaitStarted(++runs);
    clock_.Advance(busy);
    backend_.Release();
    outcomes.Await();
  };
  run(model_, absl::Seconds(3));
  EXPECT_DOUBLE_EQ(scheduler.StreamSpeed(*other_), 10) << "as it never ran";
  run(other_, absl::Seconds(1));
  EXPECT_DOUBLE_EQ(scheduler.StreamSpeed(*model_), 10);
  EXPECT_DOUBLE_EQ(scheduler.StreamSpeed(*other_), 30);
}

TEST_F(TileSchedulerTest, AccountsForTimeByRequestAndByBatch) {
  RecordingObserver observer;
  TestScheduler scheduler({gated_.device}, clock_, {.max_batch_time = absl::InfiniteDuration()},
                          &observer);
  auto a = scheduler.OpenFlow({model_, other_}), b = scheduler.OpenFlow({model_, other_});
  Occupy(a);
  Outcomes outcomes_a(1), outcomes_b(2), dropped(3);
  a.Submit(model_, NamedTiles(0, 1, 30), nullptr, outcomes_a.done());
  clock_.Advance(absl::Seconds(2));
  b.Submit(model_, NamedTiles(10, 2, 35), nullptr, outcomes_b.done());
  Cancellation cancellation;
  b.Submit(model_, NamedTiles(20, 3), &cancellation, dropped.done());
  cancellation.Cancel(absl::CancelledError(""));
  clock_.Advance(absl::Seconds(1));
  backend_.Release();
  backend_.AwaitStarted(2);
  clock_.Advance(absl::Seconds(10));
  backend_.Release();
  outcomes_a.Await(), outcomes_b.Await();
  Outcomes failed(1);
  b.Submit(model_, NamedTiles(30, 1), nullptr, failed.done());
  backend_.Release([] { return absl::InvalidArgumentError("broken"); });
  failed.Await();

  const auto batches = observer.batches();
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_THAT(batches[0].queue, ElementsAre(absl::ZeroDuration()));
  EXPECT_EQ(batches[0].infer, absl::Seconds(3));
  EXPECT_TRUE(batches[0].status.ok());
  EXPECT_THAT(batches[1].queue, ElementsAre(absl::Seconds(1), absl::Seconds(3), absl::Seconds(1)));
  EXPECT_EQ(batches[1].infer, absl::Seconds(10));
  EXPECT_EQ(batches[1].source_pixels, 100);
  EXPECT_TRUE(batches[1].status.ok());
  EXPECT_EQ(batches[2].status, absl::InvalidArgumentError("broken"));
  EXPECT_EQ(observer.dropped(), 3);

  EXPECT_EQ(a.usage().tiles, 2);
  EXPECT_EQ(a.usage().queue, absl::Seconds(3));
  EXPECT_EQ(a.usage().infer, absl::Seconds(3 + 3));
  EXPECT_EQ(b.usage().tiles, 2) << "a tile that fails is not computed";
  EXPECT_EQ(b.usage().queue, absl::Seconds(2));
  EXPECT_EQ(b.usage().infer, absl::Seconds(7));
  EXPECT_THAT(a.usage().devices, ElementsAre("gated"));
}

TEST_F(TileSchedulerTest, AFailedRunAndTheRunsAfterItAreReported) {
  RecordingObserver observer;
  TestScheduler scheduler({gated_.device}, clock_, {}, &observer);
  auto request = scheduler.OpenFlow({model_, other_});
  Occupy(request);
  Outcomes outcomes(2);
  request.Submit(model_, NamedTiles(0, 2, 30), nullptr, outcomes.done());
  backend_.Release();
  backend_.AwaitStarted(2);
  clock_.Advance(absl::Seconds(4));
  backend_.Release([] { return absl::InvalidArgumentError("broken"); });
  backend_.Release(), backend_.Release();
  outcomes.Await();
  const auto batches = observer.batches();
  ASSERT_EQ(batches.size(), 4u);
  EXPECT_EQ(batches[1].status, absl::InvalidArgumentError("broken"));
  EXPECT_EQ(batches[1].queue.size(), 2u);
  EXPECT_EQ(batches[1].infer, absl::Seconds(4));
  EXPECT_EQ(batches[1].source_pixels, 60);
  for (const int alone : {2, 3}) {
    EXPECT_TRUE(batches[alone].status.ok());
    EXPECT_EQ(batches[alone].source_pixels, 30);
  }
  EXPECT_EQ(scheduler.load().running_tiles, 0);
}

TEST_F(TileSchedulerTest, WhatOtherStreamsHelpedCountsAsTime) {
  TestScheduler scheduler({gated_.device}, clock_);
  auto request = scheduler.OpenFlow({model_, other_});
  Outcomes outcomes(1);
  request.Submit(model_, NamedTiles(0, 1, 30), nullptr, outcomes.done());
  backend_.AwaitStarted(1);
  clock_.Advance(absl::Seconds(1));
  backend_.set_helped(absl::Seconds(2));
  backend_.Release();
  outcomes.Await();
  EXPECT_EQ(request.usage().infer, absl::Seconds(3));
  EXPECT_EQ(request.usage().running.end - request.usage().running.begin, absl::Seconds(1));
  EXPECT_DOUBLE_EQ(scheduler.StreamSpeed(*model_), 10) << "of one stream alone";
}

// Many requests come, are cancelled at any moment and go: each tile is done exactly once, and
// nothing of a request is touched after its last tile (asan and tsan would see it).
TEST_F(TileSchedulerTest, SurvivesRequestsThatComeAndGo) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  GatedDevice gated(3);
  GatedBackend& backend = gated.backend;
  backend.Open();
  const auto model = NetworkOn({gated.device}), other = NetworkOn({gated.device});
  TestScheduler scheduler({gated.device}, clock_, {.max_batch_cost = 50});
  constexpr int kThreads = 4, kRequestsEach = 100;
  std::atomic<int64_t> submitted = 0, done = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(seed + thread);
      for (int r = 0; r < kRequestsEach; ++r) {
        auto request = scheduler.OpenFlow({model, other});
        auto cancellation = std::make_unique<Cancellation>();
        const int submits = 1 + random() % 3, tiles = 1 + random() % 20;
        std::vector<std::unique_ptr<Outcomes>> outcomes;
        for (int s = 0; s < submits; ++s) {
          submitted += tiles;
          outcomes.push_back(std::make_unique<Outcomes>(tiles));
          request.Submit(s % 2 ? model : other, NamedTiles(0, tiles, 1 + random() % 30),
                         cancellation.get(),
                         [&done, count = outcomes[s]->done()](size_t i, const absl::Status& st) {
                           ++done;
                           count(i, st);
                         });
        }
        if (random() % 2) cancellation->Cancel(absl::CancelledError("at random"));
        for (auto& one : outcomes) one->Await();
        cancellation.reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, submitted);
  EXPECT_EQ(scheduler.load().queued_tiles, 0);
  EXPECT_EQ(scheduler.load().queued_cost, 0);
  EXPECT_EQ(scheduler.load().running_tiles, 0);
}

}  // namespace
}  // namespace upscaled::server
