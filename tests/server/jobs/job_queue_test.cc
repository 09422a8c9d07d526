// The promises of every queue (job_queue.h).
#include "server/jobs/job_queue.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/random_uuid.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/sqlite_queue.h"
#include "tests/client/fake_clock.h"
#include "tests/client/temp_folder.h"
#include "tests/server/jobs/broker_process.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

using client::FakeClock;
using client::TempFolder;
using client::WriteText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr absl::Duration kTerm = absl::Seconds(30);

SystemClock TimeOf(FakeClock& clock) {
  return [&clock] { return clock.Now(); };
}

// As long as the process lasts.
template <typename Server>
const Server& Broker() {
  static const Server server;
  return server;
}

bool IsBuiltIn(const std::string& queue) {
#ifdef UPSCALED_REDIS
  if (queue == "redis") return true;
#endif
#ifdef UPSCALED_NATS
  if (queue == "nats") return true;
#endif
#ifdef UPSCALED_POSTGRES
  if (queue == "postgresql") return true;
#endif
  return queue == "sqlite";
}

// The server of a queue, if it has one.
const BrokerProcess& BrokerOf(const std::string& queue) {
  if (queue == "redis") return Broker<RedisServer>();
  if (queue == "nats") return Broker<NatsServer>();
  return Broker<PostgresServer>();
}

// A queue of "sqlite", "redis", "nats" or "postgresql". Jobs with a wait of zero are due at once.
class JobQueueTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (!IsBuiltIn(kind)) GTEST_SKIP() << "built without a library for " << kind;
    if (kind != "sqlite") {
      const BrokerProcess& broker = BrokerOf(kind);
      if (!broker.running()) GTEST_SKIP() << "needs the server of " << kind;
      address_ = kind == "postgresql" ? Broker<PostgresServer>().NewDatabase(RandomUuid())
                                      : broker.url(kind, RandomUuid());
    }
    queue_ = Open();
  }

  std::unique_ptr<JobQueue> Open() {
    auto queue = OpenQueue(address_, TimeOf(clock_));
    EXPECT_TRUE(queue.ok()) << queue.status();
    return *std::move(queue);
  }
  void Enqueue(std::vector<std::string> ids) {
    std::vector<NewJob> jobs;
    for (const std::string& id : ids) jobs.push_back({.id = id, .task = "task of " + id});
    const absl::Status status = queue_->Enqueue(jobs);
    ASSERT_TRUE(status.ok()) << status;
  }
  // "": nothing is due.
  LeasedJob Lease(JobQueue& queue, absl::Duration term = kTerm) {
    const auto job = queue.Lease(term);
    EXPECT_TRUE(job.ok()) << job.status();
    return job->value_or(LeasedJob{});
  }
  LeasedJob Lease(absl::Duration term = kTerm) { return Lease(*queue_, term); }
  // The job of a lease without a term: the client may take a moment to notice its end.
  LeasedJob LeaseWhenDue() {
    const absl::Time latest = absl::Now() + absl::Minutes(1);
    LeasedJob job = Lease(absl::ZeroDuration());
    for (; job.id.empty() && absl::Now() < latest; job = Lease(absl::ZeroDuration())) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return job;
  }
  JobInfo Info(const std::string& id) {
    const auto jobs = queue_->List({.id = id});
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs->size() == 1 ? jobs->front() : JobInfo{};
  }

  TempFolder folder_;
  FakeClock clock_;
  std::string address_ = folder_ / "jobs";
  std::unique_ptr<JobQueue> queue_;
};
INSTANTIATE_TEST_SUITE_P(Queues, JobQueueTest,
                         ::testing::Values("sqlite", "redis", "nats", "postgresql"),
                         [](const auto& info) { return std::string(info.param); });

// Commands that only look made the queue of a mistyped name.
TEST_P(JobQueueTest, AnAbsentQueueIsAnErrorThatMakesNothing) {
  const std::string kind = GetParam();
  const std::string address = kind == "sqlite" ? std::string(folder_ / "none/deep")
                              : kind == "postgresql"
                                  ? Broker<PostgresServer>().NewDatabase(RandomUuid())
                                  : BrokerOf(kind).url(kind, RandomUuid());
  const auto open = [&](IfAbsent if_absent) {
    return OpenQueue(address, TimeOf(clock_), if_absent);
  };
  for (int i = 0; i < 2; ++i) {
    const absl::Status absent = open(IfAbsent::kError).status();
    EXPECT_TRUE(absl::IsNotFound(absent)) << absent;
    EXPECT_NE(absent.message().find("there is no queue in "), std::string::npos) << absent;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  const auto made = open(IfAbsent::kMake);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*(*made)->Lease(kTerm), std::nullopt);  // as a worker that waits for the first job
  const auto found = open(IfAbsent::kError);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE((*found)->Count()->empty());
}

TEST_P(JobQueueTest, DeliversInOrderOfSubmissionAndEachJobOnce) {
  Enqueue({"b", "a"});
  const LeasedJob first = Lease(), second = Lease();
  EXPECT_EQ(first.id, "b");
  EXPECT_EQ(first.task, "task of b");
  EXPECT_EQ(first.delivery, 1);
  EXPECT_EQ(second.id, "a");
  EXPECT_EQ(Lease().id, "");
  ASSERT_TRUE(queue_->Complete(first, "a result").ok());
  ASSERT_TRUE(queue_->Fail(second, "no image").ok());
  EXPECT_EQ(Lease(absl::ZeroDuration()).id, "");
  EXPECT_EQ(Info("b").state, JobState::kDone);
  EXPECT_EQ(Info("b").report, "a result");
  EXPECT_EQ(Info("a").state, JobState::kFailed);
  EXPECT_THAT(*queue_->Count(), ElementsAre(Pair(JobState::kDone, 1), Pair(JobState::kFailed, 1)));
}

TEST_P(JobQueueTest, KeepsEveryByteOfItsTexts) {
  std::string bytes = "\"quoted\" \\ $1 ' {} %s";
  for (char byte = 1; byte < 127; ++byte) bytes.push_back(byte);
  bytes += "\xc3\xa4 \xf0\x9f\x8d\x8b";
  const JobLabels labels{.tenant = "t'\"\\", .batch = "b", .reference = "r'\"\\ \xc3\xa4"};
  ASSERT_TRUE(queue_->Enqueue({{{.id = "a", .task = bytes, .labels = labels}}}).ok());
  const LeasedJob job = Lease();
  EXPECT_EQ(job.task, bytes);
  ASSERT_TRUE(queue_->Fail(job, bytes).ok());
  EXPECT_EQ(Info("a").task, bytes);
  EXPECT_EQ(Info("a").report, bytes);
  EXPECT_EQ(Info("a").labels, labels);
}

TEST_P(JobQueueTest, IdsThatAreKnownArePassedOver) {
  Enqueue({"a"});
  ASSERT_TRUE(queue_->Complete(Lease(), "").ok());
  Enqueue({"a", "b"});  // a submitter that did not hear that its first try had arrived
  EXPECT_EQ(Lease().id, "b");
  EXPECT_EQ(Lease().id, "");
}

TEST_P(JobQueueTest, IdsNameFilesAndHaveToBeFitForIt) {
  for (const std::string& id :
       {std::string(), std::string("../a"), std::string("a b"), std::string(65, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(queue_->Enqueue({{{.id = id}}}))) << id;
  }
  EXPECT_EQ(Lease().id, "");
  Enqueue({"a-Z_9", std::string(64, 'a')});
}

TEST_P(JobQueueTest, JobsOfDeadWorkersComeAgain) {
  Enqueue({"a"});
  const LeasedJob lost = Lease(absl::ZeroDuration());
  queue_ = Open();  // the worker died with its connection
  const LeasedJob again = LeaseWhenDue();
  EXPECT_EQ(again.id, "a");
  EXPECT_EQ(again.delivery, 2);
  // The first worker was slow, not dead.
  EXPECT_TRUE(absl::IsAborted(queue_->Extend(lost, kTerm, {})));
  EXPECT_TRUE(absl::IsAborted(queue_->Complete(lost, "")));
  EXPECT_TRUE(absl::IsAborted(queue_->Fail(lost, "")));
  EXPECT_TRUE(absl::IsAborted(queue_->Retry(lost, "", kTerm)));
  EXPECT_TRUE(absl::IsAborted(queue_->HandBack(lost)));
  EXPECT_TRUE(queue_->Complete(again, "").ok());
  EXPECT_TRUE(absl::IsAborted(queue_->Complete(again, "")));
}

TEST_P(JobQueueTest, RetriesWaitAndCount) {
  Enqueue({"soon", "later"});
  ASSERT_TRUE(queue_->Retry(Lease(), "the server was lost", absl::ZeroDuration()).ok());
  EXPECT_EQ(Info("soon").state, JobState::kWaiting);
  EXPECT_EQ(Info("soon").report, "the server was lost");
  const LeasedJob again = Lease(), later = Lease();
  ASSERT_EQ(again.delivery + later.delivery, 3);
  ASSERT_TRUE(queue_->Retry(again, "", absl::Hours(1)).ok());
  ASSERT_TRUE(queue_->Retry(later, "", absl::Hours(1)).ok());
  EXPECT_EQ(Lease().id, "");
  EXPECT_EQ(Info("soon").deliveries, 2);
  ASSERT_TRUE(queue_->Cancel("soon").ok());
}

TEST_P(JobQueueTest, AHeartbeatIsForTheOneWhoHasTheLease) {
  Enqueue({"a"});
  const LeasedJob job = Lease();
  ASSERT_TRUE(queue_->Extend(job, kTerm, {}).ok());
  EXPECT_EQ(Lease().id, "");
  EXPECT_TRUE(queue_->Complete(job, "").ok());
  EXPECT_TRUE(absl::IsAborted(queue_->Extend(job, kTerm, {})));
}

TEST_P(JobQueueTest, AHeartbeatTellsHowFarTheDeliveryIs) {
  Enqueue({"a"});
  EXPECT_EQ(Info("a").progress, JobProgress());
  const LeasedJob first = Lease();
  const JobProgress far{.tiles_done = int64_t{1} << 40, .tiles = (int64_t{1} << 40) + 1};
  ASSERT_TRUE(queue_->Extend(first, kTerm, far).ok());
  EXPECT_EQ(Info("a").progress, far);
  EXPECT_EQ(Info("a").state, JobState::kRunning);
  ASSERT_TRUE(queue_->Retry(first, "", absl::ZeroDuration()).ok());

  const LeasedJob second = Lease();
  EXPECT_EQ(Info("a").progress, JobProgress());
  EXPECT_TRUE(absl::IsAborted(queue_->Extend(first, kTerm, far)));
  EXPECT_EQ(Info("a").progress, JobProgress());
  const JobProgress half{.tiles_done = 1, .tiles = 2};
  ASSERT_TRUE(queue_->Extend(second, kTerm, half).ok());
  ASSERT_TRUE(queue_->Complete(second, "").ok());
  EXPECT_EQ(Info("a").progress, half);
}

// A hundred jobs of one tenant held up the only job of another.
TEST_P(JobQueueTest, TenantsTakeTurns) {
  if (GetParam() == std::string("nats")) GTEST_SKIP() << "NATS delivers in order of submission";
  const auto add = [this](const std::string& id, const std::string& tenant) {
    ASSERT_TRUE(queue_->Enqueue({{{.id = id, .task = "", .labels = {.tenant = tenant}}}}).ok());
  };
  for (const char* id : {"a1", "a2", "a3", "a4"}) add(id, "a");
  EXPECT_EQ(Lease().id, "a1");
  add("b1", "b");
  add("b2", "b");
  add("own", "");
  std::vector<std::string> order;
  for (LeasedJob job = Lease(); !job.id.empty(); job = Lease()) {
    order.push_back(job.id);
    ASSERT_TRUE(queue_->Complete(job, "").ok());
  }
  const auto place = [&order](const std::string& id) {
    return std::find(order.begin(), order.end(), id) - order.begin();
  };
  ASSERT_EQ(order.size(), 6u);
  EXPECT_LT(place("b1"), 3);
  EXPECT_LT(place("own"), 3);
  EXPECT_LT(place("a2"), 3);
  EXPECT_LT(place("b2"), 5);
  EXPECT_EQ(place("a4"), 5);

  add("c1", "c");  // after all tenants have gone
  EXPECT_EQ(Lease().id, "c1");
}

TEST_P(JobQueueTest, ARetriedJobKeepsItsTenantsTurn) {
  const JobLabels labels{.tenant = "a", .batch = "batch", .reference = "r"};
  ASSERT_TRUE(queue_->Enqueue({{{.id = "a", .task = "", .labels = labels}}}).ok());
  ASSERT_TRUE(queue_->Retry(Lease(), "", absl::ZeroDuration()).ok());
  const LeasedJob again = Lease();
  EXPECT_EQ(again.id, "a");
  ASSERT_TRUE(queue_->HandBack(again).ok());
  EXPECT_EQ(Lease().id, "a");
  ASSERT_TRUE(queue_->Cancel("a").ok());
  EXPECT_EQ(Lease(absl::ZeroDuration()).id, "");
  EXPECT_EQ(Info("a").labels, labels);
}

TEST_P(JobQueueTest, ListsByLabelsAndInPages) {
  std::vector<NewJob> jobs;
  for (int i = 0; i < 10; ++i) {
    const std::string tenant = i % 2 == 0 ? "even" : "odd";
    jobs.push_back({.id = absl::StrCat("j", i),
                    .task = "t",
                    .labels = {.tenant = tenant,
                               .batch = i < 5 ? "low" : "high",
                               .reference = i == 3 ? "three: \"3\"" : "many"}});
  }
  jobs.push_back({.id = "plain", .task = "t"});
  ASSERT_TRUE(queue_->Enqueue(jobs).ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue_->Cancel(absl::StrCat("j", i)).ok());
  const auto ids = [this](const JobFilter& filter) {
    const auto found = queue_->List(filter);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> names;
    for (const JobInfo& job : *found) names.push_back(job.id);
    return names;
  };
  EXPECT_THAT(ids({.tenant = "odd"}), ElementsAre("j1", "j3", "j5", "j7", "j9"));
  EXPECT_THAT(ids({.tenant = "odd", .limit = 2}), ElementsAre("j7", "j9"));
  EXPECT_THAT(ids({.tenant = "odd", .before = "j7", .limit = 2}), ElementsAre("j3", "j5"));
  EXPECT_THAT(ids({.tenant = "odd", .before = "j1"}), IsEmpty());
  EXPECT_THAT(ids({.before = "j2"}), ElementsAre("j0", "j1"));
  EXPECT_THAT(ids({.before = "unknown"}), IsEmpty());
  EXPECT_THAT(ids({.state = JobState::kCancelled, .tenant = "even"}), ElementsAre("j0", "j2"));
  EXPECT_THAT(ids({.state = JobState::kWaiting, .before = "j6", .limit = 1}), ElementsAre("j5"));
  EXPECT_THAT(ids({.batch = "low"}), ElementsAre("j0", "j1", "j2", "j3", "j4"));
  EXPECT_THAT(ids({.state = JobState::kWaiting, .batch = "low"}), ElementsAre("j4"));
  EXPECT_THAT(ids({.tenant = "even", .batch = "high"}), ElementsAre("j6", "j8"));
  EXPECT_THAT(ids({.tenant = "odd", .reference = "three: \"3\""}), ElementsAre("j3"));
  EXPECT_THAT(ids({.tenant = "even", .reference = "three: \"3\""}), IsEmpty());
  EXPECT_THAT(ids({.id = "j3", .tenant = "odd"}), ElementsAre("j3"));
  EXPECT_THAT(ids({.id = "j3", .tenant = "even"}), IsEmpty());
  EXPECT_THAT(ids({.id = "j3", .before = "j2"}), IsEmpty());
  EXPECT_THAT(ids({.tenant = "nobody"}), IsEmpty());
  clock_.Sleep(absl::Milliseconds(5), {});
  absl::SleepFor(absl::Milliseconds(5));  // the brokers' clocks
  EXPECT_EQ(*queue_->ForgetEnded(absl::ZeroDuration(), 100), 4);
  EXPECT_THAT(ids({.tenant = "odd"}), ElementsAre("j5", "j7", "j9"));
  EXPECT_THAT(ids({.batch = "low"}), ElementsAre("j4"));
}

TEST_P(JobQueueTest, WhatIsHandedBackIsFirstInLineAndWasNotTried) {
  Enqueue({"a", "b"});
  ASSERT_TRUE(queue_->HandBack(Lease()).ok());
  const LeasedJob job = Lease();
  EXPECT_EQ(job.id, "a");
  EXPECT_EQ(job.delivery, 1);
}

TEST_P(JobQueueTest, Cancels) {
  Enqueue({"waits", "runs", "is-done"});
  ASSERT_TRUE(queue_->Cancel("waits").ok());
  const LeasedJob runs = Lease();
  EXPECT_EQ(runs.id, "runs");
  ASSERT_TRUE(queue_->Complete(Lease(), "").ok());

  ASSERT_TRUE(queue_->Cancel("runs").ok());
  EXPECT_TRUE(queue_->Cancel("runs").ok());  // who wants it so hears no error
  EXPECT_TRUE(absl::IsCancelled(queue_->Extend(runs, kTerm, {})));
  EXPECT_TRUE(absl::IsCancelled(queue_->Complete(runs, "")));
  EXPECT_TRUE(absl::IsFailedPrecondition(queue_->Cancel("is-done")));
  EXPECT_TRUE(absl::IsNotFound(queue_->Cancel("never-was")));
  EXPECT_EQ(Lease(absl::ZeroDuration()).id, "");
  EXPECT_THAT(*queue_->Count(),
              ElementsAre(Pair(JobState::kDone, 1), Pair(JobState::kCancelled, 2)));
}

TEST_P(JobQueueTest, ListsTheLatestThatTheFilterLetsThrough) {
  EXPECT_THAT(*queue_->List({}), IsEmpty());
  Enqueue({"a", "b", "c"});
  ASSERT_TRUE(queue_->Complete(Lease(), "").ok());
  const auto ids = [&](const JobFilter& filter) {
    const auto jobs = queue_->List(filter);
    std::vector<std::string> ids;
    for (const JobInfo& job : *jobs) ids.push_back(job.id);
    return ids;
  };
  EXPECT_THAT(ids({}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(ids({.limit = 2}), ElementsAre("b", "c"));
  EXPECT_THAT(ids({.state = JobState::kDone}), ElementsAre("a"));
  EXPECT_THAT(ids({.state = JobState::kWaiting, .limit = 1}), ElementsAre("c"));
  EXPECT_THAT(ids({.id = "b"}), ElementsAre("b"));
  EXPECT_THAT(ids({.id = "d"}), IsEmpty());
}

TEST_P(JobQueueTest, ForgetsJobsThatEndedLongAgo) {
  Enqueue({"done", "failed", "cancelled", "runs", "waits"});
  ASSERT_TRUE(queue_->Complete(Lease(), "").ok());
  ASSERT_TRUE(queue_->Fail(Lease(), "").ok());
  ASSERT_TRUE(queue_->Cancel(Lease().id).ok());
  const LeasedJob runs = Lease();
  const auto forget = [&](absl::Duration age, int limit) {
    const absl::StatusOr<int> forgotten = queue_->ForgetEnded(age, limit);
    EXPECT_TRUE(forgotten.ok()) << forgotten.status();
    return forgotten.value_or(-1);
  };
  EXPECT_EQ(forget(absl::Hours(1), 10), 0);
  clock_.Sleep(absl::Milliseconds(5), {});
  absl::SleepFor(absl::Milliseconds(5));  // the brokers' clocks
  EXPECT_EQ(forget(absl::ZeroDuration(), 2), 2);
  EXPECT_EQ(forget(absl::ZeroDuration(), 2), 1);
  EXPECT_EQ(forget(absl::ZeroDuration(), 2), 0);
  EXPECT_THAT(*queue_->Count(),
              ElementsAre(Pair(JobState::kWaiting, 1), Pair(JobState::kRunning, 1)));
  EXPECT_THAT(*queue_->List({.id = "done"}), IsEmpty());
  EXPECT_EQ(queue_->List({})->size(), 2u);
  ASSERT_TRUE(queue_->Complete(runs, "").ok());
  ASSERT_TRUE(queue_->Complete(Lease(), "").ok());
  Enqueue({"done"});  // as a new one
  EXPECT_EQ(Lease().delivery, 1);
}

TEST_P(JobQueueTest, ADutyIsOnesPerInterval) {
  const auto other = Open();  // as another process would
  EXPECT_TRUE(*queue_->TakeTurn("sweep", absl::Hours(1)));
  EXPECT_FALSE(*other->TakeTurn("sweep", absl::Hours(1)));
  EXPECT_FALSE(*queue_->TakeTurn("sweep", absl::Hours(1)));
  EXPECT_TRUE(*other->TakeTurn("another", absl::Milliseconds(1)));
  clock_.Sleep(absl::Milliseconds(5), {});
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_TRUE(*queue_->TakeTurn("another", absl::Milliseconds(1)));
  EXPECT_THAT(*queue_->List({}), IsEmpty()) << "a turn is no job";
}

TEST_P(JobQueueTest, ManyWorkersTakeEachJobOnce) {
  constexpr int kJobs = 40, kWorkers = 4;
  std::vector<std::string> ids;
  for (int i = 0; i < kJobs; ++i) ids.push_back(absl::StrCat(i));
  Enqueue(ids);
  absl::Mutex mutex;
  std::vector<std::string> taken;
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      workers.emplace_back([&] {
        const auto queue = Open();  // as another process would
        for (LeasedJob job = Lease(*queue); !job.id.empty(); job = Lease(*queue)) {
          EXPECT_TRUE(queue->Complete(job, "").ok());
          absl::MutexLock lock(&mutex);
          taken.push_back(job.id);
        }
      });
    }
  }
  EXPECT_EQ(taken.size(), static_cast<size_t>(kJobs));
  EXPECT_EQ(std::set<std::string>(taken.begin(), taken.end()).size(), static_cast<size_t>(kJobs));
}

TEST(SqliteQueueTest, LeasesLastAsLongAsHeartbeatsSayAndRetriesWait) {
  const TempFolder folder;
  FakeClock clock;
  const auto queue = *SqliteQueue::Open(folder.path(), TimeOf(clock));
  const auto due = [&queue] { return queue->Lease(kTerm)->has_value(); };
  ASSERT_TRUE(queue->Enqueue({{{.id = "a"}}}).ok());
  const LeasedJob job = **queue->Lease(kTerm);
  clock.Sleep(kTerm - absl::Seconds(1), {});
  ASSERT_TRUE(queue->Extend(job, kTerm, {}).ok());
  clock.Sleep(kTerm - absl::Seconds(1), {});
  EXPECT_FALSE(due());
  ASSERT_TRUE(queue->Retry(job, "", absl::Seconds(5)).ok());
  clock.Sleep(absl::Seconds(4), {});
  EXPECT_FALSE(due());
  clock.Sleep(absl::Seconds(1), {});
  EXPECT_TRUE(due());
  clock.Sleep(kTerm, {});
  EXPECT_TRUE(due());
}

// A machine with a set clock, after another start.
class SetClock {
 public:
  operator SystemClock() {
    return SystemClock([this] { return absl::UnixEpoch() + absl::Hours(500'000) + age_ + set_; },
                       [this] { return SystemClock::Boot{.id = boot_, .age = age_}; });
  }
  void Sleep(absl::Duration duration) { age_ += duration; }
  void Set(absl::Duration by) { set_ += by; }
  void Restart(const std::string& boot) {
    set_ += age_;
    age_ = absl::ZeroDuration();
    boot_ = boot;
  }

 private:
  std::string boot_ = "first";
  absl::Duration age_ = absl::Minutes(1), set_;
};

TEST(SqliteQueueTest, SettingTheClockChangesNoLeaseAndNoWait) {
  for (const absl::Duration jump : {absl::Hours(1), -absl::Hours(1)}) {
    const TempFolder folder;
    SetClock clock;
    const auto queue = *SqliteQueue::Open(folder.path(), clock);
    ASSERT_TRUE(queue->Enqueue({{{.id = "a"}, {.id = "b"}, {.id = "c"}}}).ok());
    const LeasedJob a = **queue->Lease(kTerm), b = **queue->Lease(kTerm);
    ASSERT_EQ(queue->Retry(b, "", absl::Seconds(20)), absl::OkStatus());
    clock.Set(jump);
    const auto other = *SqliteQueue::Open(folder.path(), clock);  // another process
    const auto c = *other->Lease(kTerm);
    ASSERT_TRUE(c.has_value()) << "it waits for nothing";
    EXPECT_EQ(c->id, "c");
    EXPECT_FALSE((*other->Lease(kTerm)).has_value()) << "the others are leased, and wait";
    EXPECT_EQ(queue->Extend(a, kTerm, {}), absl::OkStatus());
    ASSERT_EQ(other->HandBack(*c), absl::OkStatus());
    EXPECT_EQ((*other->Lease(absl::Hours(2)))->id, "c");
    ASSERT_TRUE(other->Enqueue({{{.id = "d"}}}).ok());
    EXPECT_EQ((*queue->Lease(absl::Hours(2)))->id, "d");
    clock.Sleep(absl::Seconds(20));
    EXPECT_EQ((*other->Lease(absl::Hours(2)))->id, "b");
    clock.Sleep(kTerm);
    EXPECT_EQ((*other->Lease(kTerm))->id, "a");
  }
}

TEST(SqliteQueueTest, AfterAStartWithAClockThatIsBehindJobsAreDue) {
  const TempFolder folder;
  SetClock clock;
  ASSERT_TRUE((*SqliteQueue::Open(folder.path(), clock))->Enqueue({{{.id = "a"}}}).ok());
  clock.Restart("second");
  clock.Set(-absl::Hours(100));
  const auto queue = *SqliteQueue::Open(folder.path(), clock);
  ASSERT_TRUE(queue->Enqueue({{{.id = "b"}}}).ok());
  EXPECT_EQ((*queue->Lease(kTerm))->id, "a");
  EXPECT_EQ((*queue->Lease(kTerm))->id, "b");
}

// The clock was ahead when the queue began, and was set before its jobs came.
TEST(SqliteQueueTest, AfterAStartJobsOfATimeThatWasAheadAreDue) {
  const TempFolder folder;
  SetClock clock;
  {
    const auto queue = *SqliteQueue::Open(folder.path(), clock);
    clock.Set(-absl::Hours(100));
    ASSERT_TRUE(queue->Enqueue({{{.id = "a"}, {.id = "b"}}}).ok());
    EXPECT_EQ((*queue->Lease(kTerm))->id, "a");  // its worker ends with the machine
  }
  clock.Restart("second");
  const auto queue = *SqliteQueue::Open(folder.path(), clock);
  EXPECT_TRUE((*queue->Lease(kTerm)).has_value());
  EXPECT_TRUE((*queue->Lease(kTerm)).has_value());
  EXPECT_FALSE((*queue->Lease(kTerm)).has_value());
}

// Looking one job up among many must not read them all.
TEST(SqliteQueueTest, QuestionsAreAnsweredByIndex) {
  const TempFolder folder;
  FakeClock clock;
  const auto queue = *SqliteQueue::Open(folder.path(), TimeOf(clock));
  constexpr int kJobs = 20'000;
  std::vector<NewJob> jobs;
  for (int i = 0; i < kJobs; ++i) jobs.push_back({.id = absl::StrCat("job", i), .task = "t"});
  ASSERT_TRUE(queue->Enqueue(jobs).ok());
  const auto cpu = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return absl::DurationFromTimespec(time);
  };
  const auto cost = [&](const JobFilter& filter, int calls) {
    const absl::Duration begin = cpu();
    for (int i = 0; i < calls; ++i) EXPECT_TRUE(queue->List(filter).ok());
    return cpu() - begin;
  };
  // A hundred look-ups take less processor time than to read all once.
  const absl::Duration all = cost({.limit = kJobs}, 1);
  EXPECT_LT(cost({.id = "job0"}, 100), all);
  EXPECT_LT(cost({.state = JobState::kWaiting, .limit = 1}, 100), all);
  absl::Duration begin = cpu();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(queue->Count().ok());
  EXPECT_LT(cpu() - begin, all);
  begin = cpu();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(queue->Lease(kTerm)->has_value());
  EXPECT_LT(cpu() - begin, all);
}

// FAILED_PRECONDITION says: the job has ended. The canceller takes it for a success.
TEST(SqliteQueueTest, AFileThatIsHeldCannotBeUsedNow) {
  const TempFolder folder;
  FakeClock clock;
  const auto queue =
      *SqliteQueue::Open(folder.path(), TimeOf(clock), IfAbsent::kMake, absl::Milliseconds(1));
  ASSERT_TRUE(queue->Enqueue({{{.id = "a", .task = "t"}}}).ok());
  const LeasedJob job = **queue->Lease(kTerm);
  auto holder = *SqliteFile::Open(folder / "jobs.sqlite", "another process");
  ASSERT_TRUE(holder.Execute("BEGIN IMMEDIATE").ok());
  for (const absl::Status& status :
       {queue->Cancel("a"), queue->Enqueue({{{.id = "b", .task = "t"}}}),
        queue->Lease(kTerm).status(), queue->Extend(job, kTerm, {}), queue->Complete(job, ""),
        queue->Fail(job, ""), queue->Retry(job, "", kTerm), queue->HandBack(job),
        queue->ForgetEnded(kTerm, 1).status(), queue->TakeTurn("duty", kTerm).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
  ASSERT_TRUE(holder.Execute("COMMIT").ok());
  EXPECT_TRUE(queue->Cancel("a").ok());
}

TEST(SqliteQueueTest, OpensWhatAnOlderVersionHasLeft) {
  const TempFolder folder;
  FakeClock clock;
  {
    auto old = *SqliteFile::Open(folder / "jobs.sqlite", "an older queue");
    ASSERT_EQ(
        old.Execute("CREATE TABLE jobs_1 (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
                    " task TEXT NOT NULL, state INTEGER NOT NULL, due_us INTEGER NOT NULL,"
                    " deliveries INTEGER NOT NULL DEFAULT 0, lease INTEGER NOT NULL DEFAULT 0,"
                    " report TEXT NOT NULL DEFAULT '', submitted_us INTEGER NOT NULL,"
                    " changed_us INTEGER NOT NULL);"
                    "INSERT INTO jobs_1 VALUES (1, 'a', 'task', 0, 0, 0, 0, '', 0, 0)"),
        absl::OkStatus());
  }
  for (int opened = 0; opened < 2; ++opened) {
    const auto queue = SqliteQueue::Open(folder.path(), TimeOf(clock));
    ASSERT_TRUE(queue.ok()) << queue.status();
    const LeasedJob job = **(*queue)->Lease(kTerm);
    ASSERT_EQ((*queue)->Extend(job, kTerm, {.tiles_done = 3, .tiles = 4}), absl::OkStatus());
    EXPECT_EQ((*queue)->List({})->at(0).progress, (JobProgress{.tiles_done = 3, .tiles = 4}));
    EXPECT_THAT(*(*queue)->Count(), ElementsAre(Pair(JobState::kRunning, 1)));
    ASSERT_EQ((*queue)->HandBack(job), absl::OkStatus());
  }
}

TEST(BrokerQueueTest, SaysWhatIsWrong) {
  FakeClock clock;
  for (const std::string scheme : {"redis", "nats", "postgresql"}) {
    for (const char* rest : {"", "a b/jobs", ":1:2"}) {
      const absl::Status wrong =
          OpenQueue(absl::StrCat(scheme, "://", rest), TimeOf(clock)).status();
      EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << scheme << rest;
    }
    if (!IsBuiltIn(scheme)) continue;
    const absl::Status lost =
        OpenQueue(scheme + "://me:hidden@127.0.0.1:1/jobs", TimeOf(clock)).status();
    EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
    EXPECT_THAT(lost.message(), HasSubstr("127.0.0.1:1"));
    EXPECT_THAT(lost.message(), Not(HasSubstr("hidden")));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(OpenQueue("nats://127.0.0.1:1/a.b", TimeOf(clock)).status()));
}

#ifdef UPSCALED_REDIS
// The answer to a command for the broker of `url`: its text, or its first line.
std::string Tell(const std::string& url, const std::string& command) {
  const size_t begin = url.find("127.0.0.1:") + 10;
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_port = htons(static_cast<uint16_t>(std::stoi(url.substr(begin))))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string line = command + "\r\n";
  EXPECT_EQ(send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL), std::ssize(line));
  const auto read_line = [&fd] {
    std::string text;
    for (char byte = 0; recv(fd.get(), &byte, 1, 0) == 1 && byte != '\n';) text.push_back(byte);
    return text.substr(0, text.size() - 1);
  };
  const std::string answer = read_line();
  return answer.starts_with('$') ? read_line() : answer;
}

TEST(RedisQueueTest, ARefusedPasswordIsTriedAgain) {
  const RedisServer server;
  if (!server.running()) GTEST_SKIP() << "needs redis-server";
  const std::string url = server.url("redis", "jobs");
  ASSERT_EQ(Tell(url, "CONFIG SET requirepass right"), "+OK");
  std::string with_password = url;
  with_password.replace(0, sizeof "redis://" - 1, "redis://:right@");
  const auto queue = OpenQueue(with_password, {});
  ASSERT_TRUE(queue.ok()) << queue.status();
  EXPECT_TRUE((*queue)->Count().ok());
  const auto tell = [&url](const std::string& password, const std::string& command) {
    // The first command's answer is told; the second one runs all the same.
    EXPECT_EQ(Tell(url, absl::StrCat("AUTH ", password, "\r\n", command)), "+OK");
  };
  // The operator changes the password, and takes the change back.
  tell("right", "CONFIG SET requirepass other\r\nCLIENT KILL TYPE normal");
  test::Await([&] { return absl::StrContains((*queue)->Count().status().message(), "WRONGPASS"); });
  tell("other", "CONFIG SET requirepass right");
  test::Await([&] { return (*queue)->Count().ok(); });
}

TEST(RedisQueueTest, ListsFromPartToPart) {
  const RedisServer& server = Broker<RedisServer>();
  if (!server.running()) GTEST_SKIP() << "needs redis-server";
  const auto queue = *OpenQueue(server.url("redis", RandomUuid()), {});
  constexpr int kJobs = 650;  // a script reads 200 at a time
  std::vector<NewJob> jobs;
  for (int i = 0; i < kJobs; ++i) jobs.push_back({.id = absl::StrCat("j", i), .task = "t"});
  ASSERT_TRUE(queue->Enqueue(jobs).ok());
  const auto expect = [&](const JobFilter& filter, int first, int count) {
    const auto found = queue->List(filter);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(std::ssize(*found), count);
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ((*found)[static_cast<size_t>(i)].id, absl::StrCat("j", first + i));
    }
  };
  expect({.limit = std::numeric_limits<int>::max()}, 0, kJobs);
  expect({.limit = 401}, kJobs - 401, 401);
  expect({.before = "j600", .limit = 400}, 200, 400);
  expect({.before = "j200", .limit = 400}, 0, 200);
}

TEST(RedisQueueTest, DropsAndCountsEntriesOfJobsThatAreGone) {
  const RedisServer& server = Broker<RedisServer>();
  if (!server.running()) GTEST_SKIP() << "needs redis-server";
  const std::string prefix = RandomUuid(), url = server.url("redis", prefix);
  FakeClock clock;
  const auto queue = OpenQueue(url, TimeOf(clock));
  ASSERT_TRUE(queue.ok()) << queue.status();
  constexpr int kGone = 1200;  // more than one call drops
  std::vector<NewJob> jobs;
  for (int i = 0; i < kGone; ++i) jobs.push_back({.id = absl::StrCat("gone", i), .task = "t"});
  jobs.push_back({.id = "mine", .task = "the task"});
  ASSERT_TRUE((*queue)->Enqueue(jobs).ok());
  const auto later = (*queue)->Lease(kTerm);  // is due again when its job is gone
  ASSERT_TRUE(later.ok() && later->has_value());
  ASSERT_TRUE((*queue)->Retry(**later, "", absl::ZeroDuration()).ok());
  for (int i = 0; i < kGone; ++i) {
    EXPECT_EQ(Tell(url, absl::StrCat("DEL ", prefix, ":job:gone", i)), ":1");
  }
  absl::StatusOr<std::optional<LeasedJob>> leased = std::nullopt;
  for (int calls = 0; calls < 3 && !leased->has_value(); ++calls) {
    leased = (*queue)->Lease(kTerm);
    ASSERT_TRUE(leased.ok()) << leased.status();
  }
  ASSERT_TRUE(leased->has_value());
  EXPECT_EQ((*leased)->id, "mine");
  EXPECT_EQ((*leased)->task, "the task");
  const auto none = (*queue)->Lease(kTerm);
  EXPECT_TRUE(none.ok() && !none->has_value()) << none.status();
  EXPECT_EQ(Tell(url, absl::StrCat("GET ", prefix, ":dropped")), absl::StrCat(kGone));
  EXPECT_THAT(*(*queue)->Count(), ElementsAre(Pair(JobState::kRunning, 1)));
}

TEST(RedisQueueTest, OneCallWaitsForASilentBrokerAndNotEach) {
  const UniqueFd broker(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(broker.get(), any, size), 0);
  ASSERT_EQ(listen(broker.get(), 16), 0);
  ASSERT_EQ(getsockname(broker.get(), any, &size), 0);
  FakeClock clock;
  const auto queue = OpenQueue(absl::StrCat("redis://127.0.0.1:", ntohs(address.sin_port), "/jobs"),
                               TimeOf(clock));
  ASSERT_TRUE(queue.ok()) << queue.status();
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&] { EXPECT_TRUE(absl::IsUnavailable((*queue)->Count().status())); });
    }
  }
  int connections = 0;
  while (UniqueFd(accept(broker.get(), nullptr, nullptr)).get() >= 0) ++connections;
  EXPECT_EQ(connections, 1) << "each call made another and waited";
}
#endif

TEST(SqliteQueueTest, SaysWhatIsWrongWithItsFile) {
  const TempFolder folder;
  FakeClock clock;
  WriteText(folder / "jobs.sqlite", std::string(8192, 'x'));
  const absl::Status status = SqliteQueue::Open(folder.path(), TimeOf(clock)).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(folder / "jobs.sqlite"));
  const absl::Status no_folder = SqliteQueue::Open(folder / "jobs.sqlite", TimeOf(clock)).status();
  EXPECT_FALSE(no_folder.ok());
  EXPECT_THAT(no_folder.message(), HasSubstr("cannot make"));
}

TEST(JobStateTest, NamesAreReadBack) {
  for (const JobState state : kJobStates) EXPECT_EQ(ParseJobState(JobStateName(state)), state);
  EXPECT_EQ(ParseJobState("lost"), std::nullopt);
}

}  // namespace
}  // namespace upscaled::server
