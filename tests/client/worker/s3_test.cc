// Sources, outputs and results in S3.
#include "client/worker/s3.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"

#include "absl/time/clock.h"
#include "client/upscale_client.h"
#include "client/worker/result_store.h"
#include "client/worker/worker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/sqlite_queue.h"
#include "tests/client/environment_variable.h"
#include "tests/client/fake_server.h"
#include "tests/client/temp_folder.h"
#include "tests/client/worker/fake_s3.h"
#include "tests/client/worker/polling_clock.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class S3Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status built = HttpUrlOf("s3://b/k", access_).status();
    if (!built.ok()) GTEST_SKIP() << built;
  }
  void Submit(const std::string& id, const server::Task& task) {
    const absl::Status status = queue_->Enqueue({{{.id = id, .task = *server::TaskToJson(task)}}});
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::Status Work() {
    const auto results = OpenResults(place_, access_);
    if (!results.ok()) return results.status();
    const WorkerOptions options{.parallel = 1,
                                .max_deliveries = 3,
                                .first_wait = absl::Milliseconds(100),
                                .until_empty = true,
                                .s3 = access_};
    return Worker(*queue_, *client_, **results, options, clock_,
                  [this](const std::string&) { ++log_lines_; })
        .Run({});
  }
  server::JobInfo Info(const std::string& id) { return queue_->List({.id = id})->at(0); }

  TempFolder folder_;
  std::string place_ = "s3://pictures/results/";
  std::atomic<int> log_lines_ = 0;
  absl::Notification putting_, let_go_;  // of a request whose client does not wait for its end
  PollingClock clock_;
  FakeServer server_;
  FakeS3 s3_;
  S3Access access_{.endpoint = s3_.endpoint(),
                   .region = FakeS3::kRegion,
                   .key_id = FakeS3::kKeyId,
                   .secret = FakeS3::kSecret};
  std::unique_ptr<server::JobQueue> queue_ =
      *server::SqliteQueue::Open(folder_ / "queue", [this] { return clock_.Now(); });
  std::unique_ptr<UpscaleClient> client_ = *UpscaleClient::Create(
      {.channel = {.endpoints = {server_.endpoint()}}, .retry = {.max_retries = 0}});
};

TEST_F(S3Test, HasSourcesOutputsAndResults) {
  access_.session_token = "a token";
  const std::string name = "in/a b+ü,'../c.png", path = "/pictures/in/a%20b%2B%C3%BC%2C%27../c.png";
  s3_.Put(path, "image");
  Submit("a", {.source = "s3://pictures/" + name, .output = "s3://pictures/out/a.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << Info("a").report;
  EXPECT_EQ(s3_.objects()["/pictures/out/a.png"], FakeResult("image"));
  EXPECT_EQ(s3_.objects().size(), 3u);  // and the result
  EXPECT_EQ(s3_.Calls("PUT"), 2);

  // Another job of the same image finds the result, and takes it from there.
  Submit("again", {.source = "s3://pictures/" + name, .output = folder_ / "again.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_THAT(Info("again").report, HasSubstr("\"computed\":false"));
  EXPECT_EQ(ReadText(folder_ / "again.png"), FakeResult("image"));
  EXPECT_EQ(s3_.Calls("PUT"), 2);
}

TEST_F(S3Test, ErrorsAreBesideTheResults) {
  Submit("gone", {.source = "s3://pictures/gone.png"});
  Submit("key", {.source = "s3://pictures"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_THAT(*queue_->Count(), ElementsAre(Pair(server::JobState::kFailed, 2)));
  EXPECT_THAT(s3_.objects()["/pictures/results/errors/gone.json"], HasSubstr("404"));
  EXPECT_THAT(s3_.objects()["/pictures/results/errors/key.json"], HasSubstr("s3://BUCKET/KEY"));
}

TEST_F(S3Test, KeysThatResultsRefuseOrLackCostNoJob) {
  WriteText(folder_ / "a", "image");
  Submit("a", {.source = folder_ / "a"});
  access_.secret = "another";
  const absl::Status refused = Work();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(Info("a").state, server::JobState::kWaiting);
  EXPECT_EQ(Info("a").deliveries, 0);
  access_.secret.clear();
  EXPECT_THAT(Work().message(), HasSubstr("AWS_SECRET_ACCESS_KEY"));
}

TEST_F(S3Test, JobsThatNeedKeysAreTriedAgainWhereAWorkerHasNone) {
  place_ = folder_ / "results";
  access_.key_id.clear();
  WriteText(folder_ / "a", "image");
  Submit("source", {.source = "s3://pictures/a.png"});
  Submit("output", {.source = folder_ / "a", .output = "s3://pictures/out.png"});
  Submit("neither", {.source = folder_ / "a"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("neither").state, server::JobState::kDone);
  for (const char* id : {"source", "output"}) {
    EXPECT_EQ(Info(id).state, server::JobState::kFailed) << id;
    EXPECT_EQ(Info(id).deliveries, 3) << id << ": another worker may have them";
    EXPECT_THAT(Info(id).report, HasSubstr("AWS_ACCESS_KEY_ID")) << id;
  }
}

TEST_F(S3Test, KeysThatAPlaceOfAJobRefusesAreTriedAgain) {
  place_ = folder_ / "results";
  s3_.Put("/pictures/a.png", "image");
  std::atomic<int> gets = 0;
  s3_.AnswerOtherwise([&](const FakeHttpRequest& request) -> std::string {
    if (request.target == "/pictures/shut.png") {
      return FakeS3::Error("403 Forbidden", "AccessDenied");
    }
    return ++gets > 1 ? "" : FakeS3::Error("400 Bad Request", "ExpiredToken");
  });
  Submit("expired", {.source = "s3://pictures/a.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("expired").state, server::JobState::kDone) << Info("expired").report;
  EXPECT_EQ(Info("expired").deliveries, 2);

  Submit("shut", {.source = "s3://pictures/shut.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("shut").state, server::JobState::kFailed);
  EXPECT_EQ(Info("shut").deliveries, 1);
  EXPECT_THAT(Info("shut").report, HasSubstr("403, AccessDenied"));

  access_.secret = "another";
  Submit("wrong", {.source = "s3://pictures/a.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("wrong").state, server::JobState::kFailed);
  EXPECT_EQ(Info("wrong").deliveries, 3);
  EXPECT_THAT(Info("wrong").report, HasSubstr("SignatureDoesNotMatch"));
}

TEST_F(S3Test, AnOutageOfTheResultsEndsNoWorkerAndFailsNoJob) {
  std::atomic<int> heads = 0, errors = 0;  // of which the first ones find it away
  s3_.AnswerOtherwise([&](const FakeHttpRequest& request) -> std::string {
    const bool is_away = request.method == "HEAD" ? ++heads <= 5
                         : absl::EndsWith(request.target, "/errors/gone.json")
                             ? ++errors <= 2
                             : absl::StrContains(request.target, "/errors/");
    return is_away ? FakeS3::Error("503 Slow Down", "SlowDown") : "";
  });
  WriteText(folder_ / "a", "image");
  Submit("a", {.source = folder_ / "a"});
  Submit("gone", {.source = "s3://pictures/gone?#.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("a").state, server::JobState::kDone) << Info("a").report;
  EXPECT_EQ(Info("a").deliveries, 3);
  EXPECT_EQ(Info("gone").state, server::JobState::kFailed);
  EXPECT_EQ(Info("gone").deliveries, 1);
  EXPECT_EQ(errors, 3);
  EXPECT_THAT(s3_.objects()["/pictures/results/errors/gone.json"], HasSubstr("gone?#.png"));
}

TEST_F(S3Test, AJobThatIsCancelledWhileItsErrorIsPutIsLetGo) {
  s3_.AnswerOtherwise([this](const FakeHttpRequest& request) -> std::string {
    if (request.method != "PUT") return "";
    putting_.Notify();
    let_go_.WaitForNotification();
    return "";
  });
  Submit("gone", {.source = "s3://pictures/gone.png"});
  std::jthread worker([this] { EXPECT_EQ(Work(), absl::OkStatus()); });
  putting_.WaitForNotification();
  ASSERT_TRUE(queue_->Cancel("gone").ok());
  // The heartbeat may not have begun to wait for its time yet.
  while (log_lines_ == 0) {
    clock_.Advance(WorkerOptions().lease / 3);
    absl::SleepFor(absl::Milliseconds(1));  // a month of them would have the queue forget the job
  }
  let_go_.Notify();
  worker.join();
  EXPECT_EQ(Info("gone").state, server::JobState::kCancelled);
}

TEST_F(S3Test, AResultThatIsRemovedMeanwhileIsComputedAnew) {
  WriteText(folder_ / "a", "image");
  Submit("a", {.source = folder_ / "a"});
  ASSERT_EQ(Work(), absl::OkStatus());
  s3_.AnswerOtherwise([this](const FakeHttpRequest& request) -> std::string {
    if (request.method != "HEAD") return "";
    s3_.Remove(request.target);
    return FakeAnswer("200 OK", "", "");
  });
  Submit("again", {.source = folder_ / "a", .output = folder_ / "again.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_THAT(Info("again").report, HasSubstr("\"computed\":true"));
  EXPECT_EQ(Info("again").deliveries, 1);
  EXPECT_EQ(ReadText(folder_ / "again.png"), FakeResult("image"));
}

TEST_F(S3Test, WhatIsComputedHasNoNameThatAKilledWorkerWouldLeave) {
  std::filesystem::create_directories(folder_ / "tmp");
  const EnvironmentVariable tmpdir("TMPDIR", folder_ / "tmp");
  std::atomic<bool> is_empty = false;
  server_.OnImage([&](FakeImageCall& call) {
    call.ReceiveAll();
    if (!call.start.name_only()) is_empty = std::filesystem::is_empty(folder_ / "tmp");
    return FakeServer::Serve(call);
  });
  WriteText(folder_ / "a", "image");
  Submit("a", {.source = folder_ / "a"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_TRUE(is_empty);
  EXPECT_EQ(Info("a").state, server::JobState::kDone);
}

TEST(S3AccessTest, IsWhatAmazonsToolsTakeFromTheEnvironment) {
  const char* const kNames[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",  "AWS_REGION",
                                "AWS_DEFAULT_REGION",  "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                "AWS_SESSION_TOKEN"};
  std::vector<std::unique_ptr<EnvironmentVariable>> variables;
  for (const char* name : kNames) {
    variables.push_back(std::make_unique<EnvironmentVariable>(name, ""));
  }
  S3Access access = S3Access::FromEnvironment();
  EXPECT_EQ(access.endpoint + access.key_id + access.secret + access.session_token, "");
  EXPECT_EQ(access.region, "us-east-1");
  for (const char* name : kNames) setenv(name, (std::string("of ") + name).c_str(), 1);
  access = S3Access::FromEnvironment();
  EXPECT_EQ(access.endpoint, "of AWS_ENDPOINT_URL_S3");
  EXPECT_EQ(access.region, "of AWS_REGION");
  EXPECT_EQ(access.key_id, "of AWS_ACCESS_KEY_ID");
  EXPECT_EQ(access.secret, "of AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(access.session_token, "of AWS_SESSION_TOKEN");
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_REGION"}) unsetenv(name);
  access = S3Access::FromEnvironment();
  EXPECT_EQ(access.endpoint, "of AWS_ENDPOINT_URL");
  EXPECT_EQ(access.region, "of AWS_DEFAULT_REGION");
}

TEST(S3AccessTest, WantsALibcurlThatSigns) {
  EXPECT_EQ(CheckLibcurlSigns(0x075700), absl::OkStatus());
  const absl::Status old = CheckLibcurlSigns(0x075600 | 1);
  EXPECT_TRUE(absl::IsUnimplemented(old)) << old;
  EXPECT_THAT(old.message(), HasSubstr("needs libcurl 7.87.0 or later, and this is 7.86.1"));
}

TEST(S3UrlTest, IsOfTheEndpointOrOfTheRegion) {
  S3Access access{.key_id = "id", .secret = "secret"};
  if (const absl::Status built = HttpUrlOf("s3://b/k", access).status(); !built.ok()) {
    GTEST_SKIP() << built;
  }
  EXPECT_EQ(*HttpUrlOf("s3://b/k/~x.png", access), "https://s3.us-east-1.amazonaws.com/b/k/~x.png");
  access.endpoint = "http://localhost:9000/";
  EXPECT_EQ(*HttpUrlOf("s3://b/k?v=%41", access), "http://localhost:9000/b/k%3Fv%3D%2541");
  for (const char* wrong : {"s3://", "s3:///k", "s3://b", "s3://b/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(HttpUrlOf(wrong, access).status())) << wrong;
  }
}

}  // namespace
}  // namespace upscaled::client
