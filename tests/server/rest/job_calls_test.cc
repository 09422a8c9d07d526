#include "server/rest/job_calls.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/base/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/jobs/async_jobs.h"
#include "server/rest/prefer.h"
#include "tests/client/temp_folder.h"
#include "tests/server/jobs/worker_of.h"
#include "tests/server/rest/forms.h"
#include "tests/server/rest/rest_environment.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<HttpField> kAsync = {{"Prefer", "respond-async"}};

TEST(PrefersAsyncTest, AmongOthersAndInAnyCase) {
  for (const std::string value : {"respond-async", "Respond-Async", "wait=10, respond-async",
                                  "respond-async;x=1, wait=5", "handling=lenient , respond-async ,",
                                  "a=\"x, \\\" y\", respond-async", "respond-async=\"\""}) {
    EXPECT_TRUE(PrefersAsync(std::vector<HttpField>{{"prefer", value}})) << value;
  }
  EXPECT_TRUE(PrefersAsync(std::vector<HttpField>{
      {"Prefer", "wait=1"}, {"Accept", "*/*"}, {"PREFER", "respond-async"}}));
}

TEST(PrefersAsyncTest, NotWhereItOnlyLooksLikeIt) {
  for (const std::string value :
       {"", "wait=10", "respond-asynchronously", "x-respond-async", ",,", "a=\"x, respond-async\"",
        "a=\"respond-async", "wait=\"respond-async\""}) {
    EXPECT_FALSE(PrefersAsync(std::vector<HttpField>{{"Prefer", value}})) << value;
  }
  EXPECT_FALSE(PrefersAsync(std::vector<HttpField>{{"Preference-Applied", "respond-async"}}));
}

class JobCallsTest : public testing::Test {
 protected:
  std::shared_ptr<FakeClient> Call(const std::string& method, const std::string& route,
                                   const std::string& id, const std::string& tenant = "") {
    HttpRequest request{.path = route, .parameter = id};
    if (!tenant.empty()) {
      request.caller = std::make_shared<Principal>(Principal{.name = "key", .tenant = tenant});
    }
    auto client = env_.Call(method, std::move(request));
    client->AwaitEnd();
    return client;
  }
  json Job(const std::string& id) {
    const auto client = Call("GET", "/v1/jobs/{id}", id);
    EXPECT_EQ(client->status(), 200) << client->body();
    return json::parse(client->body(), nullptr, false);
  }
  // The id of the job that `client` was told of.
  static std::string IdOf(const FakeClient& client) {
    EXPECT_EQ(client.status(), 202) << client.body();
    return json::parse(client.body(), nullptr, false).value("id", "");
  }

  const client::TempFolder folder_;
  WorkerOf worker_{folder_ / "queue"};
  const std::unique_ptr<AsyncJobs> jobs_ =
      *AsyncJobs::Open({.queue = folder_ / "queue", .store = folder_ / "store"});
  RestEnvironment env_{{.max_source_bytes = 100'000}, {.jobs = jobs_.get()}};
};

TEST_F(JobCallsTest, AJobIsSubmittedAndDone) {
  const std::string image = PngOf(20, 10);
  const auto submitted = env_.Post("scale=3&request_id=mine", image,
                                   {{"Prefer", "wait=1, respond-async"}, {"Accept", "image/webp"}});
  const std::string id = IdOf(*submitted);
  EXPECT_EQ(submitted->Field("Location"), "/v1/jobs/" + id);
  EXPECT_EQ(submitted->Field("Preference-Applied"), "respond-async");
  EXPECT_EQ(submitted->Field("X-Request-Id"), "mine");
  EXPECT_EQ(submitted->Field("Content-Type"), "application/json");
  EXPECT_EQ(Job(id)["state"], "waiting");
  EXPECT_EQ(Job(id)["result"], nullptr);

  const client::LeasedJob leased = worker_.Take();
  const client::Task task = WorkerOf::TaskOf(leased);
  EXPECT_TRUE(client::ReadText(task.source) == image);
  EXPECT_EQ(task.options.scale(), 3);
  EXPECT_EQ(task.options.model(), "general-2x") << "whatever other servers' default is";
  EXPECT_EQ(task.options.precision(), upscale::v1::PRECISION_EXACT);
  EXPECT_EQ(task.options.format(), upscale::v1::IMAGE_FORMAT_WEBP);
  ASSERT_TRUE(worker_.queue().Extend(leased, absl::Minutes(1), {.tiles_done = 1, .tiles = 2}).ok());
  EXPECT_EQ(Job(id)["progress"], json({{"tiles_done", 1}, {"tiles", 2}}));

  const std::string result = PngOf(30, 60);
  worker_.Complete(leased, result);
  EXPECT_EQ(Job(id)["state"], "done");
  EXPECT_EQ(Job(id)["result"], "/v1/jobs/" + id + "/result");
  const auto got = Call("GET", "/v1/jobs/{id}/result", id);
  EXPECT_EQ(got->status(), 200);
  EXPECT_TRUE(got->body() == result);
  EXPECT_EQ(got->Field("Content-Type"), "image/png");
  EXPECT_EQ(got->Field("ETag"), "\"abc123\"");
  EXPECT_EQ(env_.records().front().method, "SubmitJob");
  EXPECT_EQ(env_.records().front().received_bytes, std::ssize(image));
  EXPECT_EQ(env_.records().back().method, "GetJobResult");
}

TEST_F(JobCallsTest, AFormsImageBecomesAJob) {
  const std::string image = PngOf(20, 10);
  const std::string form =
      "--XX\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\n" + image +
      "\r\n--XX\r\nContent-Disposition: form-data; name=\"scale\"\r\n\r\n1.5\r\n--XX--\r\n";
  IdOf(*env_.Post(
      "", form,
      {{"Prefer", "respond-async"}, {"Content-Type", "multipart/form-data; boundary=XX"}}));
  const client::Task task = WorkerOf::TaskOf(worker_.Take());
  EXPECT_TRUE(client::ReadText(task.source) == image);
  EXPECT_EQ(task.options.scale(), 1.5);
}

TEST_F(JobCallsTest, OptionsAreCheckedFirst) {
  EXPECT_EQ(env_.Post("scale=99", PngOf(8, 8), kAsync)->status(), 400);
  EXPECT_EQ(env_.Post("model=best", PngOf(8, 8), kAsync)->status(), 404);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
}

TEST_F(JobCallsTest, NothingIsLeftOfASourceThatIsTooLarge) {
  const std::string large(150'000, 'x');
  EXPECT_EQ(env_.Post("", large, kAsync)->status(), 413);
  // Its length is not told.
  auto client = env_.Call("POST", {.path = "/v1/upscale", .fields = kAsync, .content_length = {}});
  client->Send(large);
  client->AwaitEnd();
  EXPECT_EQ(client->status(), 413);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
  EXPECT_TRUE(worker_.queue().Count()->empty());
}

TEST_F(JobCallsTest, NothingIsLeftOfAClientThatGoes) {
  auto client =
      env_.Call("POST", {.path = "/v1/upscale", .fields = kAsync, .content_length = 1000});
  client->Send("the first bytes", /*whole=*/false);
  client->Leave();
  client->AwaitEnd();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
  EXPECT_TRUE(worker_.queue().Count()->empty());
}

TEST_F(JobCallsTest, WhatIsAboutTheAnswerIsAnsweredAtOnce) {
  const std::string image = PngOf(8, 8);
  for (const std::string query : {"dry_run=1", "on_error=original", "download=a.png"}) {
    const auto client = env_.Post(query, image, kAsync);
    EXPECT_EQ(client->status(), 200) << query;
    EXPECT_EQ(client->Field("Preference-Applied"), "");
  }
  EXPECT_TRUE(worker_.queue().Count()->empty());
}

TEST_F(JobCallsTest, AreTheirTenantsAlone) {
  HttpRequest request{.path = "/v1/upscale", .fields = kAsync, .content_length = 1};
  request.caller = std::make_shared<Principal>(Principal{.name = "key", .tenant = "ada"});
  const auto submitted = env_.Call("POST", std::move(request));
  submitted->Send("x");
  submitted->AwaitEnd();
  const std::string id = IdOf(*submitted);
  worker_.Complete(worker_.Take(), "result");
  for (const std::string tenant : {"", "bob"}) {
    EXPECT_EQ(Call("GET", "/v1/jobs/{id}", id, tenant)->status(), 404);
    EXPECT_EQ(Call("GET", "/v1/jobs/{id}/result", id, tenant)->status(), 404);
    EXPECT_EQ(Call("DELETE", "/v1/jobs/{id}", id, tenant)->status(), 404);
  }
  EXPECT_EQ(Call("GET", "/v1/jobs/{id}/result", id, "ada")->body(), "result");
}

TEST_F(JobCallsTest, DeleteCancels) {
  const std::string id = IdOf(*env_.Post("", PngOf(8, 8), kAsync));
  const auto cancelled = Call("DELETE", "/v1/jobs/{id}", id);
  EXPECT_EQ(cancelled->status(), 204);
  EXPECT_EQ(cancelled->body(), "");
  EXPECT_EQ(Job(id)["state"], "cancelled");
  const auto result = Call("GET", "/v1/jobs/{id}/result", id);
  EXPECT_EQ(result->status(), 404);
  EXPECT_THAT(result->body(), HasSubstr("it is cancelled"));
  EXPECT_EQ(env_.records()[1].method, "CancelJob");
}

TEST_F(JobCallsTest, AFailedOneTellsWhy) {
  const std::string id = IdOf(*env_.Post("", "no image", kAsync));
  worker_.Fail(worker_.Take(), R"({"code": "INVALID_ARGUMENT", "reason": "INVALID_IMAGE",
                                   "message": "not an image \ud83d\ude00"})");
  EXPECT_EQ(Job(id)["state"], "failed");
  EXPECT_EQ(Job(id)["error"]["reason"], "INVALID_IMAGE");
  EXPECT_THAT(Job(id)["error"]["message"].get<std::string>(), HasSubstr("not an image"));
}

TEST_F(JobCallsTest, AQueueThatCannotBeUsedIsNoFaultOfTheClient) {
  auto database = SqliteFile::Open(folder_ / "queue/jobs.sqlite", "the jobs");
  ASSERT_TRUE(database.ok() && database->Execute("DROP TABLE jobs_1").ok());
  const auto client = env_.Post("", PngOf(8, 8), kAsync);
  EXPECT_EQ(client->status(), 503) << client->body();
  EXPECT_EQ(client->Field("Retry-After"), "1");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
}

TEST(JobCallsWithoutQueueTest, ThePreferenceIsIgnored) {
  RestEnvironment env;
  const auto client = env.Post("", PngOf(8, 8), kAsync);
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->Field("Content-Type"), "image/png");
  EXPECT_EQ(client->Field("Preference-Applied"), "");
  const auto job = env.Call("GET", {.path = "/v1/jobs/{id}", .parameter = "x"});
  job->AwaitEnd();
  EXPECT_EQ(job->status(), 404);
  EXPECT_THAT(job->body(), HasSubstr("this server keeps no jobs"));
}

}  // namespace
}  // namespace upscaled::server
