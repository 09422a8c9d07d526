#include "server/jobs/async_jobs.h"

#include <filesystem>
#include <string>

#include "absl/time/clock.h"
#include "engine/base/random_uuid.h"
#include "engine/image/memory_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "tests/client/temp_folder.h"
#include "tests/server/jobs/idle_queue.h"
#include "tests/server/jobs/worker_of.h"

namespace upscaled::server {
namespace {

namespace fs = std::filesystem;

using client::ReadText;
using client::WriteText;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kRetention = absl::Hours(5);

// Breaks off after its bytes.
class BrokenSource final : public ByteSource {
 public:
  explicit BrokenSource(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    if (begun_) return absl::CancelledError("gone");
    begun_ = true;
    return bytes_.Read(dst);
  }

 private:
  MemorySource bytes_;
  bool begun_ = false;
};

class AsyncJobsTest : public testing::Test {
 protected:
  AsyncJobsTest() { Open(); }

  void Open(int64_t max_bytes = int64_t{1} << 30) {
    jobs_.reset();
    auto jobs = AsyncJobs::Open(timer_, {.queue = folder_ / "queue",
                                         .store = folder_ / "store",
                                         .max_bytes = max_bytes,
                                         .retention = kRetention});
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
  }
  absl::StatusOr<AsyncJob> TrySubmit(const std::string& tenant, const std::string& bytes) {
    MemorySource source(bytes);
    upscale::v1::UpscaleOptions options;
    options.set_scale(3);
    return jobs_->Submit(tenant, {.options = options}, source);
  }
  std::string Submit(const std::string& tenant, const std::string& bytes) {
    const auto job = TrySubmit(tenant, bytes);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->id : "";
  }
  AsyncJob Find(const std::string& id) {
    const auto job = jobs_->Find("ada", id);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(AsyncJob());
  }
  // Files of the store with the job's folder at the beginning of their names.
  std::vector<std::string> Stored() const {
    std::vector<std::string> files;
    for (const std::string& file : folder_.Files()) {
      if (file.starts_with("store/")) files.push_back(file.substr(6));
    }
    return files;
  }

  const client::TempFolder folder_;
  Timer timer_;
  WorkerOf worker_{folder_ / "queue"};
  std::unique_ptr<AsyncJobs> jobs_;
};

TEST_F(AsyncJobsTest, StoresTheSourceForAWorkerAndItsResultForTheClient) {
  const std::string bytes = client::RandomBytes(200'000, 1);
  const std::string id = Submit("ada", bytes);
  EXPECT_EQ(Find(id).state, "waiting");
  const LeasedJob leased = worker_.Take();
  EXPECT_EQ(leased.id, id);
  const Task task = WorkerOf::TaskOf(leased);
  EXPECT_TRUE(ReadText(task.source) == bytes);
  EXPECT_EQ(task.options.scale(), 3);
  EXPECT_EQ(Find(id).state, "running");
  worker_.Complete(leased, "result");
  const AsyncJob job = Find(id);
  EXPECT_EQ(job.state, "done");
  EXPECT_EQ(job.deliveries, 1);
  EXPECT_EQ(job.result_name, "abc123");
  EXPECT_EQ(ReadText(jobs_->Result(job)), "result");
  EXPECT_FALSE(fs::exists(task.source)) << "nobody needs it any more";
}

TEST_F(AsyncJobsTest, TellsHowFarTheWorkerIs) {
  const std::string id = Submit("ada", "source");
  EXPECT_EQ(Find(id).tiles, 0);
  const LeasedJob leased = worker_.Take();
  ASSERT_TRUE(worker_.queue().Extend(leased, absl::Minutes(1), {.tiles_done = 3, .tiles = 8}).ok());
  EXPECT_EQ(Find(id).tiles_done, 3);
  EXPECT_EQ(Find(id).tiles, 8);
}

TEST_F(AsyncJobsTest, AreKeptWhenTheServerIsStartedAnew) {
  const std::string id = Submit("ada", "source");
  Open();
  EXPECT_EQ(Find(id).state, "waiting");
  EXPECT_EQ(ReadText(WorkerOf::TaskOf(worker_.Take()).source), "source");
}

TEST_F(AsyncJobsTest, AreTheirTenantsAlone) {
  const std::string id = Submit("ada", "source");
  for (const std::string tenant : {"", "bob", "ada "}) {
    EXPECT_TRUE(absl::IsNotFound(jobs_->Find(tenant, id).status()));
    EXPECT_TRUE(absl::IsNotFound(jobs_->Cancel(tenant, id)));
  }
  const std::string open = Submit("", "source");  // of a server that asks for no keys
  EXPECT_TRUE(jobs_->Find("", open).ok());
  EXPECT_TRUE(absl::IsNotFound(jobs_->Find("ada", open).status()));
}

TEST_F(AsyncJobsTest, KnowsNoOtherIds) {
  const std::string id = Submit("ada", "source");
  for (const std::string& other :
       {std::string(), id.substr(1), "../store/" + id, id + "/", std::string("."), RandomUuid()}) {
    EXPECT_TRUE(absl::IsNotFound(jobs_->Find("ada", other).status())) << other;
  }
}

TEST_F(AsyncJobsTest, LeaveNothingOfASourceThatBreaksOff) {
  BrokenSource source("half of it");
  EXPECT_TRUE(absl::IsCancelled(jobs_->Submit("ada", {}, source).status()));
  EXPECT_TRUE(fs::is_empty(folder_ / "store"));
  EXPECT_THAT(*worker_.queue().Count(), IsEmpty());
}

TEST_F(AsyncJobsTest, CancelledOnesAreNotBegunAndLeaveNoSource) {
  const std::string id = Submit("ada", "source");
  EXPECT_TRUE(jobs_->Cancel("ada", id).ok());
  EXPECT_TRUE(jobs_->Cancel("ada", id).ok()) << "again";
  EXPECT_EQ(Find(id).state, "cancelled");
  EXPECT_EQ(*worker_.queue().Lease(absl::Minutes(1)), std::nullopt);
  EXPECT_THAT(Stored(), ElementsAre(id + "/tenant"));
}

TEST_F(AsyncJobsTest, TheWorkerHearsThatAJobIsCancelled) {
  const std::string id = Submit("ada", "source");
  const LeasedJob leased = worker_.Take();
  EXPECT_TRUE(jobs_->Cancel("ada", id).ok());
  EXPECT_TRUE(absl::IsCancelled(worker_.queue().Extend(leased, absl::Minutes(1), {})));
}

TEST_F(AsyncJobsTest, CancellingOneThatIsDoneRemovesItsResult) {
  const std::string id = Submit("ada", "source");
  worker_.Complete(worker_.Take(), "result");
  EXPECT_EQ(Find(id).result_name, "abc123");
  EXPECT_TRUE(jobs_->Cancel("ada", id).ok());
  EXPECT_EQ(Find(id).state, "done");
  EXPECT_EQ(Find(id).result_name, "");
  EXPECT_THAT(Stored(), ElementsAre(id + "/tenant"));
}

TEST_F(AsyncJobsTest, FailuresHaveTheWordsOfServersAlone) {
  const std::string refused = Submit("ada", "no image"), odd = Submit("ada", "source");
  worker_.Fail(worker_.Take(),
               R"({"code": "INVALID_ARGUMENT", "reason": "INVALID_IMAGE", "message": "no image"})");
  worker_.Fail(worker_.Take(),
               R"({"code": "UNAVAILABLE", "reason": "", "message": "cannot reach 10.1.2.3"})");
  const AsyncJob job = Find(refused);
  ASSERT_TRUE(job.failure.has_value());
  EXPECT_EQ(job.state, "failed");
  EXPECT_EQ(job.failure->code, "INVALID_ARGUMENT");
  EXPECT_EQ(job.failure->reason, "INVALID_IMAGE");
  EXPECT_EQ(job.failure->message, "no image");
  const AsyncJob other = Find(odd);
  ASSERT_TRUE(other.failure.has_value());
  EXPECT_EQ(other.failure->code, "UNAVAILABLE");
  EXPECT_THAT(other.failure->message, testing::Not(HasSubstr("10.1.2.3")));
  EXPECT_THAT(Stored(), testing::UnorderedElementsAre(refused + "/tenant", odd + "/tenant"));
}

TEST_F(AsyncJobsTest, SweepsWhatHasEndedAndThenWhatIsLeftOfIt) {
  const std::string waiting = Submit("ada", "a"), done = Submit("ada", "b");
  worker_.Take();
  worker_.Complete(worker_.Take(), "result");
  jobs_->Sweep(absl::Now());
  EXPECT_FALSE(fs::exists(folder_ / "store" / done / "source"));
  EXPECT_TRUE(fs::exists(folder_ / "store" / done / "result"));
  jobs_->Sweep(absl::Now() + kRetention - absl::Minutes(1));
  EXPECT_EQ(Find(done).result_name, "abc123");
  jobs_->Sweep(absl::Now() + kRetention + absl::Minutes(1));
  EXPECT_TRUE(absl::IsNotFound(jobs_->Find("ada", done).status()));
  EXPECT_FALSE(fs::exists(folder_ / "store" / done));
  EXPECT_TRUE(fs::exists(folder_ / "store" / waiting / "source")) << "however old it is";
}

TEST_F(AsyncJobsTest, SweepsWhatServersThatDiedHaveLeft) {
  const std::string store = folder_ / "store";
  WriteText(store + "/.new-half/source", "so far");
  WriteText(store + "/.new-half/tenant", "ada");
  WriteText(store + "/unqueued/source", "whole");
  WriteText(store + "/unqueued/tenant", "ada");
  WriteText(store + "/results/of/somebody", "else");
  jobs_->Sweep(absl::Now() + absl::Minutes(30));
  EXPECT_EQ(Stored().size(), 5u) << "both may be under way";
  jobs_->Sweep(absl::Now() + absl::Hours(2));
  EXPECT_FALSE(fs::exists(store + "/unqueued"));
  EXPECT_TRUE(fs::exists(store + "/.new-half/source"));
  jobs_->Sweep(absl::Now() + absl::Hours(25));
  EXPECT_THAT(Stored(), ElementsAre("results/of/somebody"));
}

// Cannot read the record of one job.
class DamagedQueue final : public IdleQueue {
 public:
  absl::StatusOr<std::vector<JobInfo>> List(const JobFilter& filter) override {
    if (filter.id == "b-damaged") return absl::DataLossError("damaged");
    return std::vector{JobInfo{.id = filter.id, .state = JobState::kDone}};
  }
};

TEST_F(AsyncJobsTest, ARecordThatCannotBeReadHoldsNoSweepUp) {
  const fs::path store = folder_ / "store";
  for (const char* id : {"a-done", "b-damaged", "c-done"}) {
    WriteText(store / id / "source", "whole");
    WriteText(store / id / "tenant", "ada");
  }
  int troubles = 0;
  const auto jobs =
      AsyncJobs::Open(timer_, {.store = store, .warn = [&](const absl::Status&) { ++troubles; }},
                      [](const std::string&) { return std::make_unique<DamagedQueue>(); });
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_THAT(Stored(), testing::UnorderedElementsAre("a-done/tenant", "b-damaged/source",
                                                      "b-damaged/tenant", "c-done/tenant"));
  EXPECT_EQ(troubles, 1);
}

// Takes jobs, and loses its answer.
class TakingQueue final : public IdleQueue {
 public:
  explicit TakingQueue(absl::Status on_cancel) : on_cancel_(std::move(on_cancel)) {}
  absl::Status Enqueue(std::span<const NewJob> jobs) override {
    for (const NewJob& job : jobs) taken.push_back(job.id);
    return absl::UnavailableError("lost the broker");
  }
  absl::Status Cancel(const std::string& id) override {
    cancelled.push_back(id);
    return on_cancel_;
  }

  std::vector<std::string> taken, cancelled;

 private:
  const absl::Status on_cancel_;
};

// No source keeps workers from jobs of URLs.
TEST_F(AsyncJobsTest, WhatIsQueuedAllTheSameIsTakenBack) {
  for (const absl::Status& on_cancel :
       {absl::OkStatus(), absl::NotFoundError("none"), absl::UnavailableError("lost")}) {
    TakingQueue* queue = nullptr;
    const auto jobs = *AsyncJobs::Open(timer_, {.store = folder_ / "other"},
                                       [&](const std::string&) -> std::unique_ptr<JobQueue> {
                                         auto made = std::make_unique<TakingQueue>(on_cancel);
                                         queue = made.get();
                                         return made;
                                       });
    {
      AsyncJobs::Batch batch(*jobs, "ada", "");
      ASSERT_TRUE(batch.AddUrl("https://example.org/a.png").ok());
      ASSERT_TRUE(batch.AddUrl("https://example.org/b.png").ok());
      EXPECT_TRUE(absl::IsUnavailable(batch.Queue({{}, {}}).status()));
    }
    ASSERT_EQ(queue->taken.size(), 2u);
    if (absl::IsUnavailable(on_cancel)) {
      EXPECT_THAT(queue->cancelled, ElementsAre(queue->taken[0])) << "each would wait as long";
    } else {
      EXPECT_EQ(queue->cancelled, queue->taken);
    }
    EXPECT_TRUE(fs::is_empty(folder_ / "other"));
  }
}

TEST_F(AsyncJobsTest, SweepsResultsOfJobsThatItDoesNotHave) {
  const std::string store = folder_ / "store", orphan = RandomUuid();
  WriteText(store + "/" + orphan + "/result", "of a submission that failed");
  WriteText(store + "/results/result", "of somebody else");
  WriteText(store + "/" + orphan.substr(1) + "/result", "of somebody else");
  jobs_->Sweep(absl::Now() + absl::Minutes(30));
  EXPECT_EQ(Stored().size(), 3u) << "the worker may be at it";
  jobs_->Sweep(absl::Now() + absl::Hours(2));
  EXPECT_THAT(Stored(),
              testing::UnorderedElementsAre("results/result", orphan.substr(1) + "/result"));
}

TEST_F(AsyncJobsTest, TakesNoMoreThanTheStoreHolds) {
  Open(/*max_bytes=*/1'000'000);
  Submit("ada", std::string(400'000, 'a'));
  jobs_->Sweep(absl::Now());  // counts nothing twice: 3 bytes are the tenant's name
  const auto own = TrySubmit("ada", "a");
  EXPECT_EQ(ReasonOf(own.status()), ErrorReason::kOverloaded);
  EXPECT_THAT(own.status().message(),
              HasSubstr("531075 bytes; the limit is 500000 (job-store-bytes)"));
  Submit("bob", std::string(400'000, 'b'));
  EXPECT_EQ(ReasonOf(TrySubmit("eve", std::string(4000, 'c')).status()), ErrorReason::kOverloaded);
  EXPECT_EQ(worker_.queue().Count()->at(JobState::kWaiting), 2);
  for (int i = 0; i < 2; ++i) worker_.Complete(worker_.Take(), "small");
  jobs_->Sweep(absl::Now());  // finds that the sources are over
  jobs_->Sweep(absl::Now());  // and what is left
  Submit("eve", std::string(4000, 'c'));
}

TEST(AsyncJobsOpenTest, SaysWhatCannotBeUsed) {
  Timer timer;
  const client::TempFolder folder;
  WriteText(folder / "file", "");
  EXPECT_FALSE(AsyncJobs::Open(timer, {.queue = folder / "file", .store = folder / "store"}).ok());
  EXPECT_FALSE(AsyncJobs::Open(timer, {.queue = folder / "queue", .store = folder / "file"}).ok());
  for (const std::string& store : {std::string("store"), folder.path().string() + "/\xff"}) {
    const absl::Status none =
        AsyncJobs::Open(timer, {.queue = folder / "queue", .store = store}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(none)) << none;
  }
  const absl::Status wrong =
      AsyncJobs::Open(timer, {.queue = "ftp://me:hidden@host", .store = folder / "store"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;
  EXPECT_THAT(wrong.message(), testing::Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace upscaled::server
