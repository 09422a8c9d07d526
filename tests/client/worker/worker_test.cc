// The ends of jobs under failures of their worker, their server and their images.
#include "client/worker/worker.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/upscale_client.h"
#include "client/worker/lease_keeper.h"
#include "client/worker/result_folder.h"
#include "client/worker/webhook.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/fetch/url_prefix.h"
#include "server/jobs/cancel_job.h"
#include "server/jobs/job_message.h"
#include "server/jobs/sqlite_queue.h"
#include "server/jobs/task.h"
#include "tests/client/environment_variable.h"
#include "tests/client/fake_http_server.h"
#include "tests/client/fake_server.h"
#include "tests/client/temp_folder.h"
#include "tests/client/worker/polling_clock.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest()
      : queue_(*server::SqliteQueue::Open(folder_ / "queue", [this] { return clock_.Now(); })),
        results_(*ResultFolder::Open(folder_ / "results")),
        client_(*UpscaleClient::Create(
            {.channel = {.endpoints = {server_.endpoint()}}, .retry = {.max_retries = 0}})) {}

  // A job for out/`id` from an image of these bytes.
  void Submit(const std::string& id, const std::string& image) {
    WriteText(folder_ / ("in/" + id), image);
    SubmitTask(id, *server::TaskToJson({.source = folder_ / ("in/" + id), .output = Output(id)}));
  }
  void SubmitTask(const std::string& id, const std::string& task) {
    const absl::Status status = queue_->Enqueue({{{.id = id, .task = task}}});
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string Output(const std::string& id) const { return folder_ / ("out/" + id); }

  absl::Status Work(std::stop_token stop = {}) {
    return Worker(*queue_, *client_, results_, options_, clock_,
                  [this](const std::string& line) {
                    absl::MutexLock lock(&mutex_);
                    absl::StrAppend(&log_, line, "\n");
                  })
        .Run(std::move(stop));
  }
  std::string log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }
  bool AwaitLog(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    const auto has = [&] {
      mutex_.AssertReaderHeld();
      return log_.find(text) != std::string::npos;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&has), absl::Minutes(1));
  }

  // A server of the test is on this machine.
  void AllowPrivate(const FakeHttpServer& server) {
    options_.allowed.private_urls.push_back(*server::UrlPrefix::Parse(server.url()));
  }

  // `handler` is for the computing calls; calls for a name are answered.
  void OnCompute(FakeServer::ImageHandler handler) {
    server_.OnImage([handler = std::move(handler)](FakeImageCall& call) {
      call.ReceiveAll();
      return call.start.name_only() ? FakeServer::Serve(call) : handler(call);
    });
  }
  int computations() const {
    int count = 0;
    for (const v1::UpscaleImageStart& start : server_.starts()) count += start.name_only() ? 0 : 1;
    return count;
  }

  server::JobInfo Info(const std::string& id) {
    const auto jobs = queue_->List({.id = id});
    return jobs.ok() && jobs->size() == 1 ? jobs->front() : server::JobInfo{};
  }
  std::string ErrorFile(const std::string& id) {
    return ReadText(folder_ / ("results/errors/" + id + ".json"));
  }
  // The files of the results' folder, without errors/.
  std::vector<std::string> Results() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "results")) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    return names;
  }

  TempFolder folder_;
  PollingClock clock_;
  FakeServer server_;
  std::unique_ptr<server::JobQueue> queue_;
  ResultFolder results_;
  std::unique_ptr<UpscaleClient> client_;
  WorkerOptions options_{.parallel = 1, .max_deliveries = 3, .until_empty = true};
  absl::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(WorkerTest, ForgetsJobsThatEndedLongAgo) {
  options_.keep_ended = absl::ZeroDuration();
  constexpr int kJobs = 201;  // more than one call forgets
  std::vector<server::NewJob> jobs;
  for (int i = 0; i < kJobs; ++i) jobs.push_back({.id = absl::StrCat("old", i)});
  ASSERT_TRUE(queue_->Enqueue(jobs).ok());
  for (const server::NewJob& job : jobs) ASSERT_TRUE(queue_->Cancel(job.id).ok());
  clock_.Advance(absl::Seconds(1));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_THAT(log(), HasSubstr("forgot 201 jobs"));
  EXPECT_THAT(*queue_->Count(), IsEmpty());
}

TEST_F(WorkerTest, MakesResultsAndTellsWhichOnesWereThere) {
  Submit("a", "first");
  Submit("b", "second");
  Submit("again", "first");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_THAT(*queue_->Count(), ElementsAre(Pair(server::JobState::kDone, 3)));
  EXPECT_EQ(ReadText(Output("a")), FakeResult("first"));
  EXPECT_EQ(ReadText(Output("b")), FakeResult("second"));
  EXPECT_EQ(ReadText(Output("again")), FakeResult("first"));
  EXPECT_EQ(computations(), 2);
  EXPECT_EQ(Results().size(), 2u);
  EXPECT_THAT(Info("a").report, HasSubstr("\"computed\":true"));
  EXPECT_THAT(Info("again").report, HasSubstr("\"computed\":false"));
  for (const std::string& name : Results()) EXPECT_EQ(name.size(), 64 + sizeof ".png" - 1) << name;
}

TEST_F(WorkerTest, WhatNoOtherTryWouldMendEndsInErrors) {
  Submit("image", "bad image");
  Submit("gone", "soon gone");
  std::filesystem::remove(folder_ / "in/gone");
  SubmitTask("words", "upscale this, please");
  SubmitTask("field", R"({"source": "/a.png", "scale": 2})");
  SubmitTask("deep", R"({"source": "/a.png", "options": )" + std::string(500'000, '[') +
                         std::string(500'000, ']') + "}");
  SubmitTask("folder", *server::TaskToJson({.source = folder_ / "in"}));
  Submit("output", "an image whose output is a folder");
  std::filesystem::create_directories(Output("output"));
  ASSERT_TRUE(Work().ok()) << log();
  const std::map<std::string, std::string> reasons = {
      {"image", "INVALID_IMAGE"}, {"gone", "cannot open"},  {"words", "no JSON object"},
      {"field", "\\\"scale\\\""}, {"folder", "is no file"}, {"output", "out/output"},
      {"deep", "no JSON object"}};
  for (const auto& [id, reason] : reasons) {
    EXPECT_EQ(Info(id).state, server::JobState::kFailed) << id;
    EXPECT_EQ(Info(id).deliveries, 1) << id;
    EXPECT_THAT(Info(id).report, HasSubstr(reason)) << id;
    EXPECT_THAT(ErrorFile(id), HasSubstr(reason)) << id;
  }
}

TEST_F(WorkerTest, WhatMayPassIsTriedAgainAndNotForEver) {
  std::atomic<int> tries = 0;
  OnCompute([&](FakeImageCall& call) {
    if (call.image == "cursed") return ServerError(grpc::StatusCode::INTERNAL, "a bug", "INTERNAL");
    if (++tries < 3)
      return ServerError(grpc::StatusCode::UNAVAILABLE, "no device", "DEVICE_FAILURE");
    return FakeServer::Serve(call);
  });
  Submit("unlucky", "unlucky");
  Submit("cursed", "cursed");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("unlucky").state, server::JobState::kDone);
  EXPECT_EQ(Info("unlucky").deliveries, 3);
  EXPECT_EQ(Info("cursed").state, server::JobState::kFailed);
  EXPECT_EQ(Info("cursed").deliveries, 3);
  EXPECT_THAT(ErrorFile("cursed"), HasSubstr("a bug"));
  EXPECT_EQ(Results().size(), 1u);
}

// A tenant in debt for ten minutes, and a server full for as long.
TEST_F(WorkerTest, ARefusalForALimitCostsTimeAndNoDelivery) {
  constexpr int kRefusals = 10;  // more than the deliveries that a job has
  constexpr absl::Duration kWait = absl::Milliseconds(900);
  for (const bool is_named : {true, false}) {  // refused with its name asked for, or computed
    std::atomic<int> tries = 0;
    server_.OnImage([&](FakeImageCall& call) {
      call.ReceiveAll();
      if (call.start.name_only() != is_named) return FakeServer::Serve(call);
      return ++tries <= kRefusals
                 ? ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "in debt", "OVERLOADED", kWait)
                 : FakeServer::Serve(call);
    });
    const std::string id = is_named ? "named" : "computed";
    Submit(id, id);
    const absl::Time start = clock_.Now();
    ASSERT_TRUE(Work().ok()) << log();
    EXPECT_EQ(Info(id).state, server::JobState::kDone) << log();
    EXPECT_EQ(Info(id).deliveries, 1);
    EXPECT_GE(clock_.Now() - start, kRefusals * kWait) << "it asked sooner than it was told to";
  }
  EXPECT_THAT(log(), HasSubstr("waits 900ms: in debt"));
}

// The image itself may be why.
TEST_F(WorkerTest, MemoryThatRunsOutCountsAsATry) {
  OnCompute([](FakeImageCall&) {
    return ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "out of memory", "OVERLOADED");
  });
  Submit("huge", "huge");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("huge").state, server::JobState::kFailed);
}

TEST_F(WorkerTest, AWorkerThatWaitsForALimitStopsAtOnce) {
  OnCompute([](FakeImageCall&) {
    return ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "in debt", "OVERLOADED",
                       absl::Hours(1));
  });
  Submit("a", "a");
  std::stop_source stop;
  std::jthread worker([&] { EXPECT_TRUE(Work(stop.get_token()).ok()); });
  ASSERT_TRUE(AwaitLog("waits 1h"));
  stop.request_stop();
  worker.join();  // though nobody advances the clock
  EXPECT_EQ(Info("a").state, server::JobState::kWaiting);
  EXPECT_EQ(Info("a").deliveries, 0);
}

TEST_F(WorkerTest, ASourceThatChangesMeanwhileIsReadAgain) {
  std::atomic<int> tries = 0;
  OnCompute([&](FakeImageCall& call) {
    return ++tries == 1 ? ServerError(grpc::StatusCode::INVALID_ARGUMENT, "other bytes",
                                      "INVALID_OPTION", -absl::Seconds(1), "source_sha256")
                        : FakeServer::Serve(call);
  });
  Submit("a", "a");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << log();
  EXPECT_EQ(Info("a").deliveries, 2);
}

// A worker of a year's age aborted each job as if told to stop.
TEST_F(WorkerTest, AgeIsNoReasonToStop) {
  absl::Notification begun, may_end;
  OnCompute([&](FakeImageCall& call) {
    if (!begun.HasBeenNotified()) begun.Notify();
    while (!may_end.HasBeenNotified() && !call.context.IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return FakeServer::Serve(call);
  });
  options_.lease = absl::Hours(24 * 365'000);
  Submit("a", "a");
  std::jthread worker([&] { EXPECT_TRUE(Work().ok()); });
  begun.WaitForNotification();
  for (int years = 0; years < 200; ++years) {
    clock_.Advance(absl::Hours(24 * 366));
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(log(), "");
  may_end.Notify();
  worker.join();
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << log();
  EXPECT_EQ(Info("a").deliveries, 1);
}

TEST_F(WorkerTest, AModelThatOneReplicaLacksIsAskedOfAnother) {
  std::atomic<int> tries = 0;
  server_.OnImage([&](FakeImageCall& call) {
    call.ReceiveAll();
    if (++tries == 1) {
      return ServerError(grpc::StatusCode::NOT_FOUND, "no model \"new-2x\"", "UNKNOWN_MODEL");
    }
    return FakeServer::Serve(call);
  });
  Submit("early", "early");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("early").state, server::JobState::kDone) << log();
  EXPECT_EQ(Info("early").deliveries, 2);
}

TEST_F(WorkerTest, AJobThatKillsItsWorkersIsTakenOutOfTheQueue) {
  Submit("poison", "poison");
  for (int death = 0; death < options_.max_deliveries; ++death) {
    ASSERT_TRUE((*queue_->Lease(options_.lease)).has_value());
    clock_.Advance(options_.lease);
  }
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("poison").state, server::JobState::kFailed);
  EXPECT_THAT(ErrorFile("poison"), HasSubstr("delivered 3 times"));
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(WorkerTest, ACancelledJobIsLeftAlone) {
  absl::Notification begun;
  OnCompute([&](FakeImageCall& call) {
    begun.Notify();
    call.WaitForCancellation();
    return grpc::Status::CANCELLED;
  });
  Submit("unwanted", "unwanted");
  std::jthread worker([&] { EXPECT_TRUE(Work().ok()); });
  begun.WaitForNotification();
  ASSERT_TRUE(queue_->Cancel("unwanted").ok());
  // The heartbeat may not have begun to wait for its time yet.
  while (log().empty()) clock_.Advance(options_.lease / 3);
  worker.join();
  EXPECT_EQ(Info("unwanted").state, server::JobState::kCancelled);
  EXPECT_THAT(log(), HasSubstr("was cancelled"));
  EXPECT_THAT(Results(), IsEmpty());
}

TEST_F(WorkerTest, TellsHowFarAJobIs) {
  absl::Notification seen;
  OnCompute([&](FakeImageCall& call) {
    call.SendHeader();
    call.SendProgress(3);
    seen.WaitForNotification();
    return FakeServer::Serve(call);
  });
  Submit("a", "a");
  options_.lease = absl::Hours(24 * 365);
  const absl::Time start = clock_.Now();
  std::jthread worker([&] { EXPECT_TRUE(Work().ok()); });
  while (Info("a").progress.tiles == 0) clock_.Advance(LeaseKeeper::kProgressInterval);
  EXPECT_LT(clock_.Now() - start, options_.lease / 3);  // sooner than the heartbeat has to
  EXPECT_EQ(Info("a").progress,
            (server::JobProgress{.tiles_done = 3, .tiles = FakeImageCall::kTiles}));
  seen.Notify();
}

// Told to stop while it works on `id`, and once more when the server has been told.
class DrainTest : public WorkerTest {
 protected:
  void StopInTheMiddleOf(const std::string& id) {
    options_.until_empty = false;
    OnCompute([this](FakeImageCall& call) {
      begun_.Notify();
      while (!may_end_.HasBeenNotified() && !call.context.IsCancelled()) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      return FakeServer::Serve(call);
    });
    Submit(id, id);
    worker_ = std::jthread([this](std::stop_token stop) { EXPECT_TRUE(Work(stop).ok()); });
    begun_.WaitForNotification();
    Submit("next", "not to be begun any more");
    worker_.request_stop();
  }

  absl::Notification begun_, may_end_;
  std::jthread worker_;
};

TEST_F(DrainTest, FinishesWhatItHasAndTakesNoMore) {
  StopInTheMiddleOf("last");
  may_end_.Notify();
  worker_.join();
  EXPECT_EQ(Info("last").state, server::JobState::kDone);
  EXPECT_EQ(Info("next").deliveries, 0);
}

TEST_F(DrainTest, HandsBackWhatTakesTooLong) {
  StopInTheMiddleOf("long");
  while (log().empty()) clock_.Advance(options_.drain);
  worker_.join();
  EXPECT_EQ(Info("long").state, server::JobState::kWaiting);
  EXPECT_EQ(Info("long").deliveries, 0);
  EXPECT_THAT(Results(), IsEmpty());
}

TEST_F(WorkerTest, ItsOwnFaultsCostNoJob) {
  OnCompute([](FakeImageCall&) {
    return ServerError(grpc::StatusCode::UNAUTHENTICATED, "no such key", "UNAUTHENTICATED");
  });
  Submit("a", "a");
  const absl::Status status = Work();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_EQ(Info("a").state, server::JobState::kWaiting);
  EXPECT_EQ(Info("a").deliveries, 0);
}

TEST_F(WorkerTest, AServerThatIsNotReadyCostsNoDelivery) {
  server_.SetHealth(grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  Submit("a", "a");
  std::jthread worker([&] { EXPECT_TRUE(Work().ok()); });
  ASSERT_TRUE(AwaitLog("waiting for the server"));
  EXPECT_EQ(Info("a").deliveries, 0);
  server_.SetHealth(grpc::health::v1::HealthCheckResponse::SERVING);
  worker.join();
  EXPECT_EQ(Info("a").state, server::JobState::kDone);
  EXPECT_EQ(Info("a").deliveries, 1);
}

TEST_F(WorkerTest, SourcesAndOutputsMayBeUrls) {
  FakeHttpServer files([](const FakeHttpRequest& request) {
    if (request.target == "/moved") return FakeAnswer("302 Found", "Location: /image\r\n", "");
    const bool found = request.target == "/image" || absl::StartsWith(request.target, "/result");
    return FakeAnswer(found ? "200 OK" : "404 Not Found", "", "an image");
  });
  AllowPrivate(files);
  SubmitTask("a", *server::TaskToJson(
                      {.source = files.url() + "/moved", .output = files.url() + "/result"}));
  SubmitTask("gone", *server::TaskToJson({.source = files.url() + "/gone?signature=secret"}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << log();
  const std::vector<FakeHttpRequest> requests = files.requests();
  ASSERT_EQ(requests.size(), 4u);  // two for the one that has moved, its result, and the one gone
  const FakeHttpRequest& put = requests[2];
  EXPECT_EQ(put.method, "PUT");
  EXPECT_THAT(put.header, HasSubstr("Content-Type: image/png"));
  EXPECT_EQ(put.body, FakeResult("an image"));
  EXPECT_EQ(Info("gone").state, server::JobState::kFailed);
  EXPECT_THAT(Info("gone").report, HasSubstr("404"));
  EXPECT_THAT(Info("gone").report, Not(HasSubstr("secret")));
}

TEST_F(WorkerTest, ARedirectionOfWhatIsSentIsNoSuccess) {
  FakeHttpServer moved([](const FakeHttpRequest&) {
    return FakeAnswer("302 Found", "Location: /elsewhere\r\n", "");
  });
  AllowPrivate(moved);
  WriteText(folder_ / "in/a", "an image");
  const std::string source = folder_ / "in/a";
  SubmitTask("put", *server::TaskToJson({.source = source, .output = moved.url() + "/result"}));
  SubmitTask("post", *server::TaskToJson({.source = source, .webhook = moved.url()}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("put").state, server::JobState::kFailed);
  EXPECT_THAT(Info("put").report, HasSubstr("302"));
  EXPECT_EQ(Info("post").state, server::JobState::kDone);
  EXPECT_THAT(Info("post").report, HasSubstr("302, a redirection, which is not followed"));
  for (const FakeHttpRequest& request : moved.requests()) EXPECT_NE(request.target, "/elsewhere");
}

TEST_F(WorkerTest, WhatUrlsHoldSecretIsNotWritten) {
  options_.allowed.private_urls = {*server::UrlPrefix::Parse("http://127.0.0.1:1")};
  SubmitTask("gone",
             *server::TaskToJson({.source = "http://me:hidden@127.0.0.1:1/a?signature=hidden",
                                  .output = "https://me:hidden@host/b?signature=hidden"}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("gone").state, server::JobState::kFailed);
  EXPECT_THAT(ErrorFile("gone"), HasSubstr("\"https://host/b\""));
  EXPECT_THAT(ErrorFile("gone"), HasSubstr("http://127.0.0.1:1/a"));
  EXPECT_THAT(ErrorFile("gone") + Info("gone").report + log(), Not(HasSubstr("hidden")));
  EXPECT_EQ(std::filesystem::status(folder_ / "results/errors").permissions(),
            std::filesystem::perms::owner_all);
}

TEST_F(WorkerTest, ADownloadThatHasNoPlaceCostsNoJob) {
  options_.allowed.private_urls = {*server::UrlPrefix::Parse("http://127.0.0.1:1")};
  const EnvironmentVariable tmpdir("TMPDIR", folder_ / "none");
  SubmitTask("a", *server::TaskToJson({.source = "http://127.0.0.1:1/a"}));
  const absl::Status status = Work();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(Info("a").state, server::JobState::kWaiting);
  EXPECT_EQ(Info("a").deliveries, 0);
}

TEST_F(WorkerTest, PrivateAddressesAreRefusedUnlessTheOperatorNamesThem) {
  FakeHttpServer inner([](const FakeHttpRequest&) { return FakeAnswer("200 OK", "", "an image"); });
  FakeHttpServer outer([&](const FakeHttpRequest&) {
    return FakeAnswer("302 Found", absl::StrCat("Location: ", inner.url(), "/image\r\n"), "");
  });
  AllowPrivate(outer);
  WriteText(folder_ / "in/a", "an image");
  const std::string file = folder_ / "in/a";
  SubmitTask("source", *server::TaskToJson({.source = inner.url() + "/image"}));
  SubmitTask("name", *server::TaskToJson({.source = "http://localhost:1/image"}));
  SubmitTask("metadata", *server::TaskToJson({.source = "http://169.254.169.254/latest"}));
  SubmitTask("redirected", *server::TaskToJson({.source = outer.url() + "/image"}));
  SubmitTask("output", *server::TaskToJson({.source = file, .output = inner.url() + "/result"}));
  SubmitTask("webhook", *server::TaskToJson({.source = file, .webhook = inner.url()}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_THAT(inner.requests(), IsEmpty());
  EXPECT_EQ(outer.requests().size(), 1u);
  for (const char* id : {"source", "name", "metadata", "redirected", "output"}) {
    EXPECT_EQ(Info(id).state, server::JobState::kFailed) << id;
    EXPECT_THAT(Info(id).report, HasSubstr("--allow-private-urls")) << id;
  }
  EXPECT_THAT(Info("metadata").report, HasSubstr("169.254.169.254 is special"));
  EXPECT_THAT(Info("webhook").report, HasSubstr("--allow-private-urls"));
  EXPECT_THAT(log(), HasSubstr("the webhook was not told: "));  // and no other try is made
  EXPECT_EQ(Info("done-webhook").id, "");
}

TEST_F(WorkerTest, ARedirectionLeadsToNoBucket) {
  FakeHttpServer outer([](const FakeHttpRequest&) {
    return FakeAnswer("302 Found", "Location: s3://theirs/key\r\n", "");
  });
  AllowPrivate(outer);
  options_.s3 = {.endpoint = outer.url(), .key_id = "id", .secret = "secret"};
  SubmitTask("a", *server::TaskToJson({.source = outer.url() + "/image"}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("a").state, server::JobState::kFailed);
  EXPECT_THAT(Info("a").report, HasSubstr("redirects to s3://theirs/key"));
  EXPECT_EQ(outer.requests().size(), 1u);  // and none that is signed
}

TEST_F(WorkerTest, PlacesOutsideOfTheListsCostNoComputation) {
  options_.allowed.folders = {{folder_ / "in"}};
  options_.allowed.buckets.emplace();
  options_.allowed.urls.emplace();
  WriteText(folder_ / "in/a", "an image");
  WriteText(folder_ / "victim", "mine");
  const std::string file = folder_ / "in/a", victim = folder_ / "victim";
  SubmitTask("source", *server::TaskToJson({.source = victim}));
  SubmitTask("output", *server::TaskToJson({.source = file, .output = victim}));
  SubmitTask("bucket", *server::TaskToJson({.source = file, .output = "s3://theirs/key"}));
  SubmitTask("webhook", *server::TaskToJson({.source = file, .webhook = "https://example.com/"}));
  SubmitTask("fine", *server::TaskToJson({.source = file, .output = folder_ / "in/new/result"}));
  ASSERT_TRUE(Work().ok()) << log();
  for (const char* id : {"source", "output", "bucket", "webhook"}) {
    EXPECT_EQ(Info(id).state, server::JobState::kFailed) << id;
    EXPECT_THAT(Info(id).report, HasSubstr("--allow-")) << id;
  }
  EXPECT_EQ(Info("fine").state, server::JobState::kDone) << log();
  EXPECT_EQ(ReadText(folder_ / "in/new/result"), FakeResult("an image"));
  EXPECT_EQ(ReadText(victim), "mine");
  EXPECT_EQ(computations(), 1);
}

TEST_F(WorkerTest, AHostThatIsLostIsAskedAgain) {
  std::atomic<int> gets = 0, puts = 0;
  FakeHttpServer files([&](const FakeHttpRequest& request) {
    std::atomic<int>& tries = request.method == "GET" ? gets : puts;
    return FakeAnswer(++tries == 1 ? "503 Service Unavailable" : "200 OK", "", "an image");
  });
  AllowPrivate(files);
  SubmitTask("a", *server::TaskToJson(
                      {.source = files.url() + "/image", .output = files.url() + "/result"}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << log();
  EXPECT_EQ(Info("a").deliveries, 3);
  EXPECT_EQ(computations(), 1);
}

TEST_F(WorkerTest, WebhooksHearOfEveryEnd) {
  std::atomic<int> tries = 0;
  FakeHttpServer hook([&](const FakeHttpRequest&) {
    return FakeAnswer(++tries == 1 ? "503 Service Unavailable" : "204 No Content", "", "");
  });
  AllowPrivate(hook);
  FakeHttpServer deaf([](const FakeHttpRequest&) { return FakeAnswer("404 Not Found", "", ""); });
  AllowPrivate(deaf);
  WriteText(folder_ / "in/a", "an image");
  const std::string source = folder_ / "in/a";
  SubmitTask("done", *server::TaskToJson({.source = source, .webhook = hook.url() + "/ended"}));
  SubmitTask("failed", *server::TaskToJson({.source = source + "-none", .webhook = hook.url()}));
  SubmitTask("unheard", *server::TaskToJson({.source = source, .webhook = deaf.url()}));
  options_.webhook_secret = "a secret of two dozen bytes";
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("done").state, server::JobState::kDone);
  EXPECT_EQ(Info("done").deliveries, 1);
  EXPECT_EQ(Info("failed").state, server::JobState::kFailed);
  EXPECT_EQ(Info("unheard").state, server::JobState::kDone);
  EXPECT_EQ(Info("done-unheard").state, server::JobState::kWaiting) << "after five minutes";
  EXPECT_THAT(log(), HasSubstr("1 webhooks have not answered"));
  EXPECT_EQ(computations(), 1);
  std::map<std::string, int> types;
  for (const FakeHttpRequest& request : hook.requests()) {
    EXPECT_EQ(request.method, "POST");
    const auto event = nlohmann::json::parse(request.body);
    ++types[event["type"]];
    const std::string id = event["data"]["job"];
    EXPECT_THAT(request.header, HasSubstr("webhook-id: " + id + "\r\n"));
    const size_t time =
        request.header.find("webhook-timestamp: ") + sizeof "webhook-timestamp: " - 1;
    const int64_t unix_s = std::stoll(request.header.substr(time));
    EXPECT_THAT(request.header,
                HasSubstr("webhook-signature: " +
                          WebhookSignature(options_.webhook_secret, id, unix_s, request.body)));
  }
  EXPECT_THAT(types, ElementsAre(Pair("upscale.job.done", 2), Pair("upscale.job.failed", 1)));
}

TEST_F(WorkerTest, WebhooksAreToldOfSourceOutputSizeAndReference) {
  FakeHttpServer hook([](const FakeHttpRequest&) { return FakeAnswer("204 No Content", "", ""); });
  AllowPrivate(hook);
  WriteText(folder_ / "in/a", "an image");
  const server::Task task{.source = folder_ / "in/a",
                          .output = folder_ / "out/a.png",
                          .webhook = hook.url(),
                          .reference = "order 7"};
  SubmitTask("first", *server::TaskToJson(task));
  SubmitTask("again", *server::TaskToJson(task));  // whose result is there already
  ASSERT_TRUE(Work().ok()) << log();
  ASSERT_EQ(hook.requests().size(), 2u);
  for (const FakeHttpRequest& request : hook.requests()) {
    const auto data = nlohmann::json::parse(request.body)["data"];
    EXPECT_EQ(data["state"], "done");
    EXPECT_EQ(data["reference"], "order 7");
    EXPECT_EQ(data["source"], task.source);
    EXPECT_EQ(data["output"], task.output);
    EXPECT_GT(data["size"]["width_px"], 0) << request.body;
    EXPECT_GT(data["size"]["height_px"], 0);
    EXPECT_EQ(data["size"]["bytes"], ReadText(task.output).size());
    EXPECT_TRUE(data["report"].contains("result"));
  }
}

// No worker has the job, and so none would tell.
TEST_F(WorkerTest, WebhooksAreToldOfCancelledJobsUntilTheyAnswer) {
  std::atomic<int> tries = 0;
  FakeHttpServer hook([&](const FakeHttpRequest&) {
    return FakeAnswer(++tries == 1 ? "503 Service Unavailable" : "204 No Content", "", "");
  });
  AllowPrivate(hook);
  SubmitTask("a",
             *server::TaskToJson({.source = "/a.png", .webhook = hook.url(), .reference = "r"}));
  SubmitTask("quiet", *server::TaskToJson({.source = "/a.png"}));
  ASSERT_TRUE(server::CancelJob(*queue_, "a").ok());
  ASSERT_TRUE(server::CancelJob(*queue_, "a").ok());  // says so again, and nothing is sent twice
  ASSERT_TRUE(server::CancelJob(*queue_, "quiet").ok());
  EXPECT_TRUE(absl::IsNotFound(server::CancelJob(*queue_, "none")));
  options_.webhook_secret = "a secret of two dozen bytes";
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(computations(), 0);
  ASSERT_EQ(hook.requests().size(), 2u);
  for (const FakeHttpRequest& request : hook.requests()) {
    EXPECT_THAT(request.header, HasSubstr("webhook-id: a\r\n"));
    EXPECT_THAT(request.header, HasSubstr("webhook-signature: v1,"));
    const auto event = nlohmann::json::parse(request.body);
    EXPECT_EQ(event["type"], "upscale.job.cancelled");
    EXPECT_EQ(event["data"]["job"], "a");
    EXPECT_EQ(event["data"]["reference"], "r");
  }
  EXPECT_EQ(Info("cancelled-a").state, server::JobState::kDone);
  EXPECT_EQ(Info("a").state, server::JobState::kCancelled);
}

TEST_F(WorkerTest, AMessageThatNobodyTakesFails) {
  FakeHttpServer deaf([](const FakeHttpRequest&) { return FakeAnswer("404 Not Found", "", ""); });
  AllowPrivate(deaf);
  SubmitTask("a", *server::TaskToJson({.source = "/a.png", .webhook = deaf.url()}));
  ASSERT_TRUE(server::CancelJob(*queue_, "a").ok());
  for (const absl::Duration wait : kWebhookWaits) {
    EXPECT_EQ(server::FindTelling(*queue_, Info("a"))->message, "cancelled-a");
    ASSERT_TRUE(Work().ok()) << log();
    clock_.Advance(wait);
  }
  ASSERT_TRUE(Work().ok()) << log();
  const size_t tries = 1 + std::size(kWebhookWaits);
  EXPECT_EQ(deaf.requests().size(), tries);
  EXPECT_EQ(Info("cancelled-a").state, server::JobState::kFailed);
  const auto telling = server::FindTelling(*queue_, Info("a"));
  ASSERT_TRUE(telling.has_value());
  EXPECT_EQ(telling->message, "") << "nobody tries any more";
  EXPECT_EQ(telling->tries, tries);
  EXPECT_EQ(telling->answer, 404);
  EXPECT_THAT(log(), HasSubstr(absl::StrCat("was not told after ", tries, " tries: ")));
}

// An endpoint that was down for a quarter of a minute lost its message for good.
TEST_F(WorkerTest, AWebhookThatIsDownForHoursIsToldAfterIt) {
  std::atomic<bool> down = true;
  FakeHttpServer hook([&](const FakeHttpRequest&) {
    return FakeAnswer(down ? "502 Bad Gateway" : "200 OK", "", "");
  });
  AllowPrivate(hook);
  WriteText(folder_ / "in/a", "an image");
  SubmitTask("a", *server::TaskToJson({.source = folder_ / "in/a", .webhook = hook.url()}));
  SubmitTask("b", *server::TaskToJson({.source = folder_ / "in/b-none", .webhook = hook.url()}));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << "it waits for no webhook";
  EXPECT_EQ(Info("b").state, server::JobState::kFailed);
  EXPECT_EQ(server::FindTelling(*queue_, Info("a"))->answer, 502);
  EXPECT_EQ(server::FindTelling(*queue_, Info("a"))->message, "done-a");
  // A worker takes the message and is killed.
  clock_.Advance(absl::Hours(1));
  ASSERT_TRUE((*queue_->Lease(options_.lease)).has_value());
  clock_.Advance(options_.lease);
  down = false;
  const size_t before = hook.requests().size();
  ASSERT_TRUE(Work().ok()) << log();
  ASSERT_EQ(hook.requests().size(), before + 2);
  EXPECT_EQ(computations(), 1);
  EXPECT_THAT(log(), HasSubstr("job a: the webhook was told at try "));
  std::map<std::string, nlohmann::json> told;
  for (const FakeHttpRequest& request : hook.requests()) {
    const auto data = nlohmann::json::parse(request.body)["data"];
    const auto [first, is_new] = told.try_emplace(data["job"], data);
    EXPECT_EQ(data, first->second) << "each try tells the same";
    EXPECT_THAT(request.header,
                HasSubstr("webhook-id: " + data["job"].get<std::string>() + "\r\n"));
  }
  EXPECT_EQ(told["a"]["state"], "done");
  EXPECT_EQ(told["b"]["state"], "failed");
  for (const char* id : {"a", "b"}) {
    const auto telling = server::FindTelling(*queue_, Info(id));
    ASSERT_TRUE(telling.has_value());
    EXPECT_TRUE(telling->told);
    EXPECT_GT(telling->tries, 4);
    EXPECT_EQ(telling->message, "");
  }
}

TEST_F(WorkerTest, AWebhookThatIsGoneIsNotTriedAgain) {
  FakeHttpServer gone([](const FakeHttpRequest&) { return FakeAnswer("410 Gone", "", ""); });
  AllowPrivate(gone);
  WriteText(folder_ / "in/a", "an image");
  SubmitTask("a", *server::TaskToJson({.source = folder_ / "in/a", .webhook = gone.url()}));
  SubmitTask("b", *server::TaskToJson({.source = "/b.png", .webhook = gone.url()}));
  ASSERT_TRUE(server::CancelJob(*queue_, "b").ok());
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(gone.requests().size(), 2u);
  EXPECT_EQ(Info("a").state, server::JobState::kDone);
  EXPECT_EQ(Info("cancelled-b").state, server::JobState::kFailed);
  for (const char* id : {"a", "b"}) {
    const auto telling = server::FindTelling(*queue_, Info(id));
    ASSERT_TRUE(telling.has_value());
    EXPECT_FALSE(telling->told);
    EXPECT_EQ(telling->answer, 410);
    EXPECT_EQ(telling->message, "");
    EXPECT_EQ(telling->tries, 1);
  }
  EXPECT_THAT(log(), HasSubstr("the webhook was not told: "));
  EXPECT_THAT(log(), HasSubstr("the webhook was not told after 1 try: "));
}

// Messages stood behind all jobs that were there before them.
TEST_F(WorkerTest, AMessageWaitsBehindNoBacklog) {
  std::vector<server::NewJob> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back({.id = absl::StrCat("job", i), .task = "{}"});
  ASSERT_TRUE(queue_->Enqueue(jobs).ok());
  const auto message = server::MakeMessage({.source = "/a.png", .webhook = "https://a.example/"},
                                           {.id = "a", .state = server::JobState::kDone});
  ASSERT_TRUE(message.ok()) << message.status();
  ASSERT_TRUE(queue_->Enqueue({&*message, 1}).ok());
  const auto first = queue_->Lease(options_.lease), second = queue_->Lease(options_.lease);
  EXPECT_TRUE((*first)->id == "done-a" || (*second)->id == "done-a");
}

// Jobs lost all that the server has to say about their results.
TEST_F(WorkerTest, WarningsReachTheReportTheLogAndTheWebhook) {
  server_.OnImage([](FakeImageCall& call) {
    call.ReceiveAll();
    call.header_warnings = {"alpha is left out"};
    if (!call.start.name_only()) call.summary_warnings = {"the file is cut short"};
    return FakeServer::Serve(call);
  });
  FakeHttpServer hook([](const FakeHttpRequest&) { return FakeAnswer("200 OK", "", ""); });
  AllowPrivate(hook);
  WriteText(folder_ / "in/a", "an image");
  const server::Task task{.source = folder_ / "in/a", .webhook = hook.url()};
  SubmitTask("first", *server::TaskToJson(task));
  SubmitTask("again", *server::TaskToJson(task));  // whose result is there already
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(computations(), 1);
  const nlohmann::json both = {"alpha is left out", "the file is cut short"};
  for (const char* id : {"first", "again"}) {
    EXPECT_EQ(nlohmann::json::parse(Info(id).report)["warnings"], both) << id;
    EXPECT_THAT(log(), HasSubstr(absl::StrCat("job ", id, ": ")));
  }
  EXPECT_THAT(log(), HasSubstr("which was there already; warning: alpha is left out; the file"));
  ASSERT_EQ(hook.requests().size(), 2u);
  for (const FakeHttpRequest& request : hook.requests()) {
    EXPECT_EQ(nlohmann::json::parse(request.body)["data"]["warnings"], both);
  }
  // A result of an earlier release, or whose warnings were removed.
  std::filesystem::remove_all(folder_ / "results/warnings");
  SubmitTask("later", *server::TaskToJson(task));
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_EQ(nlohmann::json::parse(Info("later").report)["warnings"],
            nlohmann::json({"alpha is left out"}));
}

TEST_F(WorkerTest, AResultWithoutWarningsHasNone) {
  Submit("a", "a");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_FALSE(nlohmann::json::parse(Info("a").report).contains("warnings"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "results/warnings"));
}

TEST(WebhookTest, TellsNoPathsOfTheOperatorAndNoSecrets) {
  const server::Task shown{.source = "/var/lib/jobs/x/source",
                           .output = "/var/lib/jobs/x/result",
                           .shown_source = "https://user:word@example.org/cat.png?token=1",
                           .shown_output = "/v1/jobs/x/result"};
  const std::string failed =
      WebhookBody({"x", server::JobState::kFailed,
                   R"({"code": "NOT_FOUND", "message": "cannot open /var/lib/jobs/x/source"})"},
                  shown, absl::UnixEpoch());
  EXPECT_THAT(failed, Not(HasSubstr("/var/lib")));
  EXPECT_THAT(failed, Not(HasSubstr("word")));
  EXPECT_THAT(failed, Not(HasSubstr("token")));
  EXPECT_THAT(failed, HasSubstr("/v1/jobs/x/result"));
  EXPECT_THAT(failed, HasSubstr("example.org/cat.png"));
  EXPECT_THAT(failed, HasSubstr("the operator knows why"));
  const std::string told = WebhookBody(
      {"x", server::JobState::kFailed,
       R"({"code": "INVALID_ARGUMENT", "reason": "INVALID_IMAGE", "message": "no PNG"})"},
      shown, absl::UnixEpoch());
  EXPECT_THAT(told, HasSubstr("no PNG"));
}

TEST(WebhookTest, SignsAsOthersDo) {
  // Computed by Python's hmac.
  const auto secret = ParseWebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(WebhookSignature(*secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
                             "{\"test\": 2432232314}"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  for (const char* wrong : {"", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseWebhookSecret(wrong).status())) << wrong;
  }
}

TEST_F(WorkerTest, AResultIsNamedByWhatWasSent) {
  OnCompute([&](FakeImageCall& call) {
    call.start.set_source_sha256("other weights by now");
    return FakeServer::Serve(call);
  });
  Submit("a", "a");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_THAT(Results(), ElementsAre("6f7468657220776569676874732062792"
                                     "06e6f77.png"));
  EXPECT_EQ(ReadText(Output("a")), FakeResult("a"));
}

TEST_F(WorkerTest, AResultWithoutANameHasItsJobs) {
  server_.OnImage([](FakeImageCall& call) {
    call.ReceiveAll();
    call.start.clear_source_sha256();
    return FakeServer::Serve(call);
  });
  Submit("a", "a");
  ASSERT_TRUE(Work().ok()) << log();
  EXPECT_THAT(Results(), ElementsAre("job-a.png"));
}

TEST(ResultFolderTest, UnfinishedFilesOfTheDeadAreRemoved) {
  const TempFolder folder;
  const std::filesystem::path dead = folder / ".upscale-1-0.part",
                              writes = folder / ".upscale-2-0.part", result = folder / "a.png";
  for (const auto& path : {dead, writes, result}) WriteText(path, "half");
  const auto yesterday = std::filesystem::file_time_type::clock::now() - std::chrono::hours(25);
  for (const auto& path : {dead, result}) std::filesystem::last_write_time(path, yesterday);
  ASSERT_TRUE(ResultFolder::Open(folder.path()).ok());
  EXPECT_THAT(folder.Files(), ElementsAre(".upscale-2-0.part", "a.png"));
}

TEST(TaskTest, IsReadBack) {
  server::Task task{.source = "https://example.org/a.png?key=1",
                    .output = "/out/a.webp",
                    .webhook = "https://example.org/hook",
                    .reference = "order \"7\"\nof \u00fc",
                    .shown_source = "a.png",
                    .shown_output = "/v1/jobs/a/result",
                    .ended_job = server::EndedJob{.id = "another",
                                                  .state = server::JobState::kFailed,
                                                  .report = "{\"code\": \"NOT_FOUND\"}"}};
  task.options.set_noise_level(2);
  task.options.mutable_size()->set_width_px(3840);
  task.options.set_format(v1::IMAGE_FORMAT_WEBP);
  const auto read = server::ParseTask(*server::TaskToJson(task));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->source, task.source);
  EXPECT_EQ(read->output, task.output);
  EXPECT_EQ(read->webhook, task.webhook);
  EXPECT_EQ(read->reference, task.reference);
  EXPECT_EQ(read->shown_source, task.shown_source);
  EXPECT_EQ(read->shown_output, task.shown_output);
  EXPECT_EQ(read->ended_job, task.ended_job);
  EXPECT_EQ(read->options.SerializeAsString(), task.options.SerializeAsString());
}

TEST(TaskTest, MessagesOfEarlierReleasesAreRead) {
  const auto read = server::ParseTask(R"({"source": "/a.png", "cancelled_job": "a"})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ended_job,
            (server::EndedJob{.id = "a", .state = server::JobState::kCancelled, .report = ""}));
}

TEST(TaskTest, HasNoOptionsThatAreNoText) {
  server::Task task{.source = "/a.png"};
  task.options.set_model("\xff");
  const absl::Status status = server::TaskToJson(task).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(TaskTest, RefusesPlacesThatAreNotUtf8AndReplacesSuchBytesInNames) {
  const server::Task fine{.source = "/a\u00fc.png", .output = "/b", .webhook = "https://c/"};
  for (std::string server::Task::*place :
       {&server::Task::source, &server::Task::output, &server::Task::webhook}) {
    server::Task task = fine;
    task.*place += "\xff";
    const absl::Status status = server::TaskToJson(task).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(fine.*place + "\ufffd, which is not UTF-8"));
  }
  server::Task named = fine;
  named.reference = "order \xff";
  EXPECT_EQ(server::ParseTask(*server::TaskToJson(named))->reference, "order \ufffd");
}

TEST(TaskTest, PartsOfFilmsAreReadBack) {
  const server::Task task{.source = "/in/film.mkv",
                          .output = "/out/film.mkv",
                          .film = server::FilmPart{.id = "a-film",
                                                   .number = 3,
                                                   .frames = 1000,
                                                   .part_frames = 240,
                                                   .rate = 24000,
                                                   .rate_by = 1001,
                                                   .start_s = 0.083,
                                                   .matrix = "2020",
                                                   .primaries = "bt2020",
                                                   .transfer = "smpte2084",
                                                   .range = "tv",
                                                   .codec = "ffv1"}};
  const auto read = server::ParseTask(*server::TaskToJson(task));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->film, task.film);
  EXPECT_EQ(task.film->parts(), 5);
  EXPECT_EQ(task.film->first_frame(), 720);
  EXPECT_EQ(task.film->count(3), 240);
  EXPECT_EQ(task.film->count(4), 40);
}

TEST(TaskTest, SaysWhatIsWrongWithAFilm) {
  const nlohmann::json film = {{"id", "a"},        {"number", 0},  {"frames", 10},
                               {"part_frames", 5}, {"rate", 25},   {"rate_by", 1},
                               {"start_s", 0.5},   {"matrix", ""}, {"codec", "h264"}};
  const auto parse = [](const nlohmann::json& part, const std::string& output = "/b") {
    return server::ParseTask(
               nlohmann::json{{"source", "/a"}, {"output", output}, {"film", part}}.dump())
        .status();
  };
  ASSERT_TRUE(parse(film).ok()) << parse(film);
  EXPECT_FALSE(parse(1).ok());
  EXPECT_FALSE(parse(film, "https://example.org/b").ok());
  const std::pair<const char*, nlohmann::json> wrong[] = {
      {"id", "../a"},   {"id", ""},       {"number", 2},      {"number", -1},     {"frames", 0},
      {"frames", 1e30}, {"frames", "10"}, {"part_frames", 0}, {"rate", 0},        {"rate_by", 0},
      {"start_s", "0"}, {"matrix", 601},  {"codec", nullptr}, {"folder", "/tmp"}, {"transfer", 1}};
  for (const auto& [name, value] : wrong) {
    nlohmann::json part = film;
    part[name] = value;
    EXPECT_TRUE(absl::IsInvalidArgument(parse(part))) << name << " " << value;
  }
}

TEST(TaskTest, SaysWhatIsWrong) {
  const std::map<std::string, std::string> wrong = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{}", "no source"},
      {R"({"source": 1})", "no text"},
      {R"({"source": "a.png"})", "neither an absolute path"},
      {R"({"source": "ftp://a/b"})", "neither an absolute path"},
      {R"({"source": "/a", "output": "b"})", "the output \"b\""},
      {R"({"source": "/a", "webhook": "/b"})", "no URL"},
      {R"({"source": "/a", "options": {"scal": 2}})", "scal"},
      {R"({"source": "/a", "options": 2})", "wrong \"options\""},
      {R"({"source": "/a", "ended_job": "b"})", "\"ended_job\""},
      {R"({"source": "/a", "ended_job": {"id": "b", "state": "running", "report": ""}})",
       "the state \"running\""},
      {R"({"source": "/a", "cancelled_job": 1})", "no text"},
      {R"({"source": "/a", "priority": 2})", "\"priority\""}};
  for (const auto& [text, what] : wrong) {
    const absl::Status status = server::ParseTask(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(status.message(), HasSubstr(what)) << text;
  }
}

}  // namespace
}  // namespace upscaled::client
