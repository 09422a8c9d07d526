// Sources, outputs and results in S3.
#include "client/jobs/s3.h"

#include <memory>
#include <string>

#include "client/jobs/result_store.h"
#include "client/jobs/sqlite_queue.h"
#include "client/jobs/worker.h"
#include "client/upscale_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"
#include "tests/client/jobs/fake_s3.h"
#include "tests/client/jobs/polling_clock.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class S3Test : public ::testing::Test {
 protected:
  void Submit(const std::string& id, const Task& task) {
    const absl::Status status = queue_->Enqueue({{{.id = id, .task = TaskToJson(task)}}});
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::Status Work() {
    const auto results = OpenResults("s3://pictures/results/", access_);
    if (!results.ok()) return results.status();
    return Worker(*queue_, *client_, **results, {.parallel = 1, .until_empty = true, .s3 = access_},
                  clock_, [](const std::string&) {})
        .Run({});
  }
  JobInfo Info(const std::string& id) { return queue_->List({.id = id})->at(0); }

  TempFolder folder_;
  PollingClock clock_;
  FakeServer server_;
  FakeS3 s3_;
  S3Access access_{.endpoint = s3_.endpoint(),
                   .region = FakeS3::kRegion,
                   .key_id = FakeS3::kKeyId,
                   .secret = FakeS3::kSecret};
  std::unique_ptr<JobQueue> queue_ = *SqliteQueue::Open(folder_ / "queue", clock_);
  std::unique_ptr<UpscaleClient> client_ = *UpscaleClient::Create(
      {.channel = {.endpoints = {server_.endpoint()}}, .retry = {.max_retries = 0}});
};

TEST_F(S3Test, HasSourcesOutputsAndResults) {
  access_.session_token = "a token";
  const std::string name = "in/a b+ü,'../c.png", path = "/pictures/in/a%20b%2B%C3%BC%2C%27../c.png";
  s3_.Put(path, "image");
  Submit("a", {.source = "s3://pictures/" + name, .output = "s3://pictures/out/a.png"});
  ASSERT_EQ(Work(), absl::OkStatus());
  EXPECT_EQ(Info("a").state, JobState::kDone) << Info("a").report;
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
  EXPECT_THAT(*queue_->Count(), ElementsAre(Pair(JobState::kFailed, 2)));
  EXPECT_THAT(s3_.objects()["/pictures/results/errors/gone.json"], HasSubstr("404"));
  EXPECT_THAT(s3_.objects()["/pictures/results/errors/key.json"], HasSubstr("s3://BUCKET/KEY"));
}

TEST_F(S3Test, KeysThatAreRefusedOrMissingCostNoJob) {
  WriteText(folder_ / "a", "image");
  Submit("a", {.source = folder_ / "a"});
  access_.secret = "another";
  const absl::Status refused = Work();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(Info("a").state, JobState::kWaiting);
  EXPECT_EQ(Info("a").deliveries, 0);
  access_.secret.clear();
  EXPECT_THAT(Work().message(), HasSubstr("AWS_SECRET_ACCESS_KEY"));
}

TEST(S3UrlTest, IsOfTheEndpointOrOfTheRegion) {
  S3Access access{.key_id = "id", .secret = "secret"};
  EXPECT_EQ(*HttpUrlOf("s3://b/k/~x.png", access), "https://s3.us-east-1.amazonaws.com/b/k/~x.png");
  access.endpoint = "http://localhost:9000/";
  EXPECT_EQ(*HttpUrlOf("s3://b/k?v=%41", access), "http://localhost:9000/b/k%3Fv%3D%2541");
  for (const char* wrong : {"s3://", "s3:///k", "s3://b", "s3://b/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(HttpUrlOf(wrong, access).status())) << wrong;
  }
}

}  // namespace
}  // namespace upscaled::client
