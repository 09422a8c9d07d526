// Tests of the tile scheduler with several devices, and when they fail.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/repository.h"
#include "server/base/error.h"
#include "server/devices/device_chooser.h"
#include "tests/server/batching/gated_backend.h"
#include "tests/server/batching/outcomes.h"
#include "tests/server/batching/test_scheduler.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

absl::Status Lost() { return absl::InternalError("context lost"); }

class MovedTiles final : public TileObserver {
 public:
  void OnBatch(const BatchReport&) override {}
  void OnDropped(int64_t) override {}
  void OnMoved(int64_t tiles) override {
    absl::MutexLock lock(&mutex_);
    count_ += tiles;
  }
  int64_t count() const {
    absl::MutexLock lock(&mutex_);
    return count_;
  }

 private:
  mutable absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

class DeviceFailureTest : public ::testing::Test {
 protected:
  // Keeps the failed ones, in order.
  DeviceQuarantine::Listener KeepFailed() {
    return [this](const Device& device, const absl::Status& fault) {
      EXPECT_EQ(fault, Lost());
      absl::MutexLock lock(&mutex_);
      failed_.push_back(device.name());
    };
  }
  std::vector<std::string> failed() {
    absl::MutexLock lock(&mutex_);
    return failed_;
  }

  FakeClock clock_;
  MovedTiles moved_;
  GatedDevice gpu_{1, "gpu:0", 0, 0};

 private:
  absl::Mutex mutex_;
  std::vector<std::string> failed_ ABSL_GUARDED_BY(mutex_);
};

class TwoClassesTest : public DeviceFailureTest {
 protected:
  GatedDevice cpu_{1, "cpu", 1, 1};
  const std::shared_ptr<const DeviceExecutable> network_ = NetworkOn({gpu_.device, cpu_.device});
};

class TwinsTest : public DeviceFailureTest {
 protected:
  GatedDevice twin_{1, "gpu:1", 1, 0};
  GatedDevice cpu_{1, "cpu", 2, 1};
  const std::shared_ptr<const DeviceExecutable> network_ =
      NetworkOn({gpu_.device, twin_.device, cpu_.device});
};

TEST_F(TwoClassesTest, ATileThatADeviceFailsOnRunsOnceMoreOnAnother) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  auto request = scheduler.OpenFlow({network_});
  Outcomes first(1), queued(3);
  request.Submit(network_, NamedTiles(0, 1), nullptr, first.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(network_, NamedTiles(10, 3), nullptr, queued.done());
  EXPECT_EQ(scheduler.load().queued_tiles, 3) << "an image stays with one device class";
  gpu_.backend.Release(Lost);
  cpu_.backend.Open();
  first.Await(), queued.Await();
  scheduler.Stop(absl::CancelledError("the test has ended"));
  EXPECT_THAT(first.statuses(), Each(absl::OkStatus()));
  EXPECT_THAT(queued.statuses(), Each(absl::OkStatus()));
  const auto runs = cpu_.backend.AwaitStarted(1);
  EXPECT_EQ(runs[0].executable, network_->On(*cpu_.device));
  std::vector<int> tiles;
  for (const auto& run : runs) tiles.insert(tiles.end(), run.tiles.begin(), run.tiles.end());
  EXPECT_THAT(tiles, ElementsAre(0, 10, 11, 12)) << "in order, each once";
  EXPECT_EQ(gpu_.backend.AwaitStarted(1).size(), 1u);
  EXPECT_EQ(moved_.count(), 1);
  EXPECT_THAT(failed(), ElementsAre("gpu:0"));
  EXPECT_THAT(scheduler.quarantine().working(), ElementsAre(cpu_.device));
  EXPECT_THAT(request.usage().devices, ElementsAre("cpu"));
  EXPECT_EQ(request.usage().tiles, 4);
}

// One of a batch's tiles may be the cause of its device's failure: on the next one it runs alone.
TEST_F(TwoClassesTest, TilesThatADeviceFailsOnRunEachAlone) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  const auto other = NetworkOn({gpu_.device, cpu_.device});
  auto request = scheduler.OpenFlow({network_, other});
  Outcomes occupied(1), outcomes(4);
  request.Submit(other, NamedTiles(-1, 1), nullptr, occupied.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(network_, NamedTiles(0, 4), nullptr, outcomes.done());
  gpu_.backend.Release();
  ASSERT_EQ(gpu_.backend.AwaitStarted(2)[1].tiles.size(), 4u);
  gpu_.backend.Release(Lost);
  cpu_.backend.Open();
  outcomes.Await();
  EXPECT_THAT(outcomes.statuses(), Each(absl::OkStatus()));
  const auto runs = cpu_.backend.AwaitStarted(4);
  for (const auto& run : runs) EXPECT_EQ(run.tiles.size(), 1u);
}

// A device fails on one of the single tiles after a failed run.
TEST_F(TwoClassesTest, TilesThatAreStillToRunAloneGoToAnotherDevice) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  const auto other = NetworkOn({gpu_.device, cpu_.device});
  auto request = scheduler.OpenFlow({network_, other});
  Outcomes occupied(1), outcomes(3);
  request.Submit(other, NamedTiles(-1, 1), nullptr, occupied.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(network_, NamedTiles(0, 3), nullptr, outcomes.done());
  gpu_.backend.Release();
  ASSERT_EQ(gpu_.backend.AwaitStarted(2)[1].tiles.size(), 3u);
  gpu_.backend.Release([] { return absl::InvalidArgumentError("a tile too far"); });
  gpu_.backend.Release(Lost);
  gpu_.backend.Open();
  cpu_.backend.Open();
  outcomes.Await();
  scheduler.Stop(absl::CancelledError("the test has ended"));  // the observer knows all
  EXPECT_THAT(outcomes.statuses(), Each(absl::OkStatus()));
  EXPECT_EQ(gpu_.backend.AwaitStarted(3).size(), 3u);
  EXPECT_EQ(cpu_.backend.AwaitStarted(3).size(), 3u);
  EXPECT_EQ(moved_.count(), 1) << "the device has failed on no other tile";
}

TEST_F(TwoClassesTest, AResultIsNamedByAClassThatWorks) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  const auto gpu_only = NetworkOn({gpu_.device});
  auto failing = scheduler.OpenFlow({gpu_only}), early = scheduler.OpenFlow({network_}),
       late = scheduler.OpenFlow({network_}), lost = scheduler.OpenFlow({gpu_only});
  EXPECT_THAT(early.KeepClass(), absl::StatusOr<int>(0));
  Outcomes broken(1), outcomes(1);
  failing.Submit(gpu_only, NamedTiles(0, 1), nullptr, broken.done());
  gpu_.backend.Release(Lost);
  broken.Await();
  EXPECT_THAT(late.KeepClass(), absl::StatusOr<int>(1));
  EXPECT_THAT(early.KeepClass().status(), IsStatus(absl::StatusCode::kUnavailable, "other bytes"));
  EXPECT_THAT(lost.KeepClass().status(), IsStatus(absl::StatusCode::kUnavailable, "gpu:0 failed"));
  late.Submit(network_, NamedTiles(1, 1), nullptr, outcomes.done());
  cpu_.backend.Open();
  outcomes.Await();
  EXPECT_THAT(outcomes.statuses(), Each(absl::OkStatus()));
  EXPECT_EQ(network_->PartOf(1).device, cpu_.device);
}

TEST_F(TwoClassesTest, ANamedResultIsOfOneClass) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  auto named = scheduler.OpenFlow({network_}), unnamed = scheduler.OpenFlow({network_});
  ASSERT_TRUE(named.KeepClass().ok());
  Outcomes running(1), queued(2), late(1), others(2);
  named.Submit(network_, NamedTiles(0, 1), nullptr, running.done());
  gpu_.backend.AwaitStarted(1);
  named.Submit(network_, NamedTiles(10, 2), nullptr, queued.done());
  unnamed.Submit(network_, NamedTiles(20, 2), nullptr, others.done());
  gpu_.backend.Release(Lost);
  cpu_.backend.Open();
  running.Await(), queued.Await(), others.Await();
  named.Submit(network_, NamedTiles(30, 1), nullptr, late.done());
  for (const Outcomes* outcomes : {&running, &queued, &late}) {
    EXPECT_THAT(outcomes->statuses(),
                Each(IsStatus(absl::StatusCode::kUnavailable, "computes other bytes; try again")));
    EXPECT_EQ(ReasonOf(outcomes->statuses().front()), ErrorReason::kDeviceFailure);
  }
  EXPECT_THAT(others.statuses(), Each(absl::OkStatus()));
  EXPECT_THAT(unnamed.usage().devices, ElementsAre("cpu"));
}

TEST_F(TwinsTest, ANamedResultGoesOnOnADeviceOfItsClass) {
  TestScheduler scheduler({gpu_.device, twin_.device, cpu_.device}, clock_);
  auto named = scheduler.OpenFlow({network_});
  ASSERT_TRUE(named.KeepClass().ok());
  Outcomes outcomes(2);
  named.Submit(network_, NamedTiles(0, 2), nullptr, outcomes.done());
  gpu_.backend.AwaitStarted(1);
  gpu_.backend.Release(Lost);
  twin_.backend.Open();
  outcomes.Await();
  EXPECT_THAT(outcomes.statuses(), Each(absl::OkStatus()));
  EXPECT_THAT(named.usage().devices, ElementsAre("gpu:1"));
}

TEST_F(TwoClassesTest, MovedTilesHaveBeenQueuedSinceTheyWereSubmitted) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {.max_batch_cost = 1});
  auto request = scheduler.OpenFlow({network_});
  Outcomes first(1), queued(3);
  request.Submit(network_, NamedTiles(0, 1), nullptr, first.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(network_, NamedTiles(10, 3), nullptr, queued.done());
  clock_.Advance(absl::Minutes(1));
  gpu_.backend.Release(Lost);
  cpu_.backend.AwaitStarted(1);
  EXPECT_THAT(scheduler.work()[0].backlogged, Each(absl::ZeroDuration()));
  EXPECT_THAT(scheduler.work()[1].backlogged, ElementsAre(absl::Minutes(1), absl::ZeroDuration()));
  cpu_.backend.Open();
  first.Await(), queued.Await();
}

TEST_F(TwoClassesTest, TheSecondFailureOnATileIsItsLast) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  auto request = scheduler.OpenFlow({network_});
  Outcomes outcomes(1);
  request.Submit(network_, NamedTiles(0, 1), nullptr, outcomes.done());
  gpu_.backend.Release(Lost);
  cpu_.backend.Release(Lost);
  outcomes.Await();
  scheduler.Stop(absl::CancelledError("the test has ended"));
  const absl::Status status = outcomes.statuses().front();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kInternal, "failed on two devices; on cpu"));
  EXPECT_EQ(ReasonOf(status), ErrorReason::kDeviceFailure);
  EXPECT_THAT(failed(), UnorderedElementsAre("gpu:0", "cpu"));
  EXPECT_EQ(moved_.count(), 1);
}

TEST_F(TwoClassesTest, ADeviceThatDoesNotAnswerLosesWhatWaitsForIt) {
  std::vector<absl::Status> faults;
  TestScheduler scheduler(
      {gpu_.device, cpu_.device}, clock_, {}, &moved_,
      [&](const Device&, const absl::Status& fault) { faults.push_back(fault); });
  auto request = scheduler.OpenFlow({network_});
  Outcomes stuck(1), queued(2);
  request.Submit(network_, NamedTiles(0, 1), nullptr, stuck.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(network_, NamedTiles(10, 2), nullptr, queued.done());
  cpu_.backend.Open();
  EXPECT_FALSE(scheduler.WatchRuns(RunWatch::kSlack - absl::Seconds(30)));
  EXPECT_EQ(scheduler.quarantine().working().size(), 2u);
  EXPECT_FALSE(gpu_.backend.given_up());
  EXPECT_FALSE(scheduler.WatchRuns(absl::Minutes(1)));
  EXPECT_TRUE(gpu_.backend.given_up());
  EXPECT_THAT(scheduler.quarantine().working(), ElementsAre(cpu_.device));
  queued.Await();
  EXPECT_THAT(queued.statuses(), Each(absl::OkStatus()));
  EXPECT_THAT(faults, ElementsAre(IsStatus(absl::StatusCode::kDeadlineExceeded,
                                           "gpu:0: a run has not ended")));
  EXPECT_TRUE(scheduler.WatchRuns(absl::Hours(1))) << "its run does not return";
  EXPECT_FALSE(scheduler.WatchRuns(absl::Hours(1))) << "told once";
  EXPECT_EQ(faults.size(), 1u);
  // Its own tile goes on: a late result is one.
  EXPECT_EQ(stuck.left(), 1);
  gpu_.backend.Release();
  stuck.Await();
  EXPECT_THAT(stuck.statuses(), Each(absl::OkStatus()));
}

// A backend that only waits for its device returns.
TEST_F(TwoClassesTest, TilesOfADeviceGivenUpRunElsewhere) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_);
  auto request = scheduler.OpenFlow({network_});
  Outcomes stuck(1);
  request.Submit(network_, NamedTiles(0, 1), nullptr, stuck.done());
  gpu_.backend.AwaitStarted(1);
  cpu_.backend.Open();
  EXPECT_FALSE(scheduler.WatchRuns(absl::Hours(1)));
  ASSERT_TRUE(gpu_.backend.given_up());
  gpu_.backend.Release([] { return absl::DeadlineExceededError("given up"); });
  stuck.Await();
  EXPECT_THAT(stuck.statuses(), Each(absl::OkStatus()));
  EXPECT_EQ(cpu_.backend.AwaitStarted(1).size(), 1u);
  EXPECT_FALSE(scheduler.WatchRuns(absl::Hours(10)));
}

TEST_F(TwoClassesTest, WhereNothingElseIsLeftAHangFailsWhatWaits) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_);
  const auto gpu_only = NetworkOn({gpu_.device});
  auto request = scheduler.OpenFlow({gpu_only});
  Outcomes stuck(1), queued(2), late(1);
  request.Submit(gpu_only, NamedTiles(0, 1), nullptr, stuck.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(gpu_only, NamedTiles(10, 2), nullptr, queued.done());
  EXPECT_FALSE(scheduler.WatchRuns(absl::Hours(1)));
  queued.Await();
  request.Submit(gpu_only, NamedTiles(20, 1), nullptr, late.done());
  for (const Outcomes* outcomes : {&queued, &late}) {
    EXPECT_THAT(outcomes->statuses(),
                Each(IsStatus(absl::StatusCode::kUnavailable, "a run has not ended after 1h")));
  }
  // A late fault finds no device either.
  gpu_.backend.Release(Lost);
  stuck.Await();
  EXPECT_THAT(stuck.statuses(),
              Each(IsStatus(absl::StatusCode::kUnavailable, "no device is left")));
}

TEST_F(TwoClassesTest, WithoutADeviceAllIsUnavailableUntilOneIsBack) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  const auto gpu_only = NetworkOn({gpu_.device});
  auto request = scheduler.OpenFlow({gpu_only});
  Outcomes running(1), queued(2), late(1), again(1);
  request.Submit(gpu_only, NamedTiles(0, 1), nullptr, running.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(gpu_only, NamedTiles(10, 2), nullptr, queued.done());
  gpu_.backend.Release(Lost);
  running.Await(), queued.Await();
  request.Submit(gpu_only, NamedTiles(20, 1), nullptr, late.done());
  for (const Outcomes* outcomes : {&running, &queued, &late}) {
    EXPECT_THAT(outcomes->statuses(),
                Each(IsStatus(absl::StatusCode::kUnavailable, "gpu:0 failed: context lost")));
    EXPECT_EQ(ReasonOf(outcomes->statuses().front()), ErrorReason::kDeviceFailure);
  }
  EXPECT_EQ(moved_.count(), 0);
  EXPECT_EQ(scheduler.load().queued_tiles, 0);

  GatedDevice rebuilt(1, "gpu:0", 0, 0);
  scheduler.quarantine().Restore(rebuilt.device);
  EXPECT_THAT(scheduler.quarantine().working(), ElementsAre(rebuilt.device, cpu_.device));
  const auto rebuilt_only = NetworkOn({rebuilt.device});
  auto fresh = scheduler.OpenFlow({rebuilt_only});
  fresh.Submit(rebuilt_only, NamedTiles(30, 1), nullptr, again.done());
  rebuilt.backend.Open();
  again.Await();
  EXPECT_THAT(again.statuses(), Each(absl::OkStatus()));
}

TEST_F(TwoClassesTest, ACancelledTileIsNotMoved) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  auto request = scheduler.OpenFlow({network_});
  Cancellation cancellation;
  Outcomes outcomes(1);
  request.Submit(network_, NamedTiles(0, 1), &cancellation, outcomes.done());
  gpu_.backend.AwaitStarted(1);
  cancellation.Cancel(absl::CancelledError("gone"));
  gpu_.backend.Release(Lost);
  outcomes.Await();
  EXPECT_THAT(outcomes.statuses(), Each(IsStatus(absl::StatusCode::kCancelled, "gone")));
  EXPECT_THAT(request.usage().devices, IsEmpty());
}

TEST_F(TwoClassesTest, StoppingFinishesWhatADeviceFailsOn) {
  TestScheduler scheduler({gpu_.device, cpu_.device}, clock_, {}, &moved_, KeepFailed());
  auto request = scheduler.OpenFlow({network_});
  Outcomes outcomes(1), queued(1);
  request.Submit(network_, NamedTiles(0, 1), nullptr, outcomes.done());
  gpu_.backend.AwaitStarted(1);
  request.Submit(network_, NamedTiles(1, 1), nullptr,
                 [&, count = queued.done()](size_t index, const absl::Status& status) {
                   count(index, status);
                   gpu_.backend.Release(Lost);  // the scheduler has begun to stop
                 });
  scheduler.Stop(absl::UnavailableError("shutting down"));
  EXPECT_EQ(outcomes.left(), 0);
  EXPECT_THAT(outcomes.statuses(), Each(IsStatus(absl::StatusCode::kUnavailable, "shutting down")));
}

TEST_F(TwinsTest, DevicesOfAClassShareTheTiles) {
  TestScheduler scheduler({gpu_.device, twin_.device, cpu_.device}, clock_);
  EXPECT_EQ(scheduler.concurrency(), 3);
  EXPECT_EQ(scheduler.StreamCount(0), 2);
  EXPECT_EQ(scheduler.IdleStreamCount(0), 2);
  auto request = scheduler.OpenFlow({network_});
  Outcomes outcomes(2);
  request.Submit(network_, NamedTiles(0, 2), nullptr, outcomes.done());
  gpu_.backend.AwaitStarted(1), twin_.backend.AwaitStarted(1);
  EXPECT_EQ(scheduler.IdleStreamCount(0), 0);
  EXPECT_EQ(scheduler.IdleStreamCount(1), 1);
  gpu_.backend.Open(), twin_.backend.Open();
  outcomes.Await();
  EXPECT_EQ(request.usage().devices.size(), 2u);
}

TEST_F(TwinsTest, ATwinGoesOnWithTheSameClass) {
  TestScheduler scheduler({gpu_.device, twin_.device, cpu_.device}, clock_, {}, &moved_,
                          KeepFailed());
  auto request = scheduler.OpenFlow({network_});
  Outcomes outcomes(4);
  request.Submit(network_, NamedTiles(0, 4), nullptr, outcomes.done());
  gpu_.backend.AwaitStarted(1), twin_.backend.AwaitStarted(1);
  gpu_.backend.Release(Lost);
  twin_.backend.Open();
  outcomes.Await();
  EXPECT_THAT(outcomes.statuses(), Each(absl::OkStatus()));
  EXPECT_THAT(request.usage().devices, ElementsAre("gpu:1"));
  EXPECT_THAT(cpu_.backend.AwaitStarted(0), IsEmpty());
}

// A device after its return serves the requests planned with it, and leaves the others their own.
TEST_F(TwinsTest, ARebuiltDeviceTakesOnlyWhatIsPlannedWithIt) {
  TestScheduler scheduler({gpu_.device, twin_.device, cpu_.device}, clock_, {}, &moved_,
                          KeepFailed());
  const auto gpu_only = NetworkOn({gpu_.device}), twins = NetworkOn({gpu_.device, twin_.device});
  auto failing = scheduler.OpenFlow({gpu_only}), old = scheduler.OpenFlow({twins});
  Outcomes lost(1), old_outcomes(3), fresh_outcomes(1);
  failing.Submit(gpu_only, NamedTiles(0, 1), nullptr, lost.done());
  gpu_.backend.Release(Lost);
  lost.Await();
  old.Submit(twins, NamedTiles(10, 3), nullptr, old_outcomes.done());
  twin_.backend.AwaitStarted(1);
  GatedDevice rebuilt(1, "gpu:0", 0, 0);
  rebuilt.backend.Open();
  scheduler.quarantine().Restore(rebuilt.device);
  const auto rebuilt_twins = NetworkOn({rebuilt.device, twin_.device});
  auto fresh = scheduler.OpenFlow({rebuilt_twins});
  fresh.Submit(rebuilt_twins, NamedTiles(20, 1), nullptr, fresh_outcomes.done());
  fresh_outcomes.Await();
  EXPECT_THAT(fresh.usage().devices, ElementsAre("gpu:0"));
  twin_.backend.Open();
  old_outcomes.Await();
  EXPECT_THAT(old.usage().devices, ElementsAre("gpu:1"));
}

class BindingTest : public TwoClassesTest {
 protected:
  // The device classes of `requests` of 1000 pixels each. All of them stay open.
  std::vector<int> ClassesOf(int requests) {
    const ModelCard& card = **repository_.Find("general-2x");
    const ModelPass pass{&card, &card.variants.front()};
    std::vector<int> classes;
    for (int i = 0; i < requests; ++i) {
      auto choice = chooser_.Load({&pass, 1}, Precision::kExact, 1000);
      EXPECT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(choice->executables.front()->parts().size(), 2u);
      classes.push_back(choice->executables.front()->device_class());
      open_.push_back(static_cast<TileScheduler&>(scheduler_).OpenFlow({}));
      open_.back().Adopt(*std::move(choice));
    }
    return classes;
  }
  // Has the device run a tile of 1000 pixels, for so long.
  void RunTile(GatedDevice& device, absl::Duration duration,
               const absl::Status& outcome = absl::OkStatus()) {
    const size_t runs = device.backend.AwaitStarted(0).size();
    const auto network = NetworkOn({device.device});
    auto request = scheduler_.OpenFlow({network});
    Outcomes outcomes(1);
    request.Submit(network, NamedTiles(0, 1, 1000), nullptr, outcomes.done());
    device.backend.AwaitStarted(runs + 1);
    clock_.Advance(duration);
    device.backend.Release([outcome] { return outcome; });
    outcomes.Await();
  }

  const ModelRepository repository_ = *ModelRepository::Open({"engine/model/bundled"});
  TestScheduler scheduler_{{gpu_.device, cpu_.device}, clock_};
  DeviceChooser chooser_{scheduler_.quarantine(), [this] { return scheduler_.work(); }};
  std::vector<RequestFlow> open_;
};

TEST_F(BindingTest, ARequestGoesWhereItIsSoonestDone) {
  RunTile(gpu_, absl::Seconds(1));
  RunTile(cpu_, absl::Seconds(3));
  // After 1, 2 and 3 s there, or 3 s here; at a tie the preferred one; then 3 against 4 s.
  EXPECT_THAT(ClassesOf(5), ElementsAre(0, 0, 0, 1, 0));
  open_.clear();
  EXPECT_THAT(ClassesOf(1), ElementsAre(0));
}

TEST_F(BindingTest, OneRequestFindsOutHowFastADeviceClassIs) {
  EXPECT_THAT(ClassesOf(3), ElementsAre(0, 1, 0));
  open_.clear();
  RunTile(gpu_, absl::Seconds(1));
  RunTile(cpu_, absl::Seconds(1), absl::InvalidArgumentError("computes nothing"));
  EXPECT_THAT(ClassesOf(4), ElementsAre(1, 0, 0, 0));
}

}  // namespace
}  // namespace upscaled::server
