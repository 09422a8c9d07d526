#include "server/rest/job_calls.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/jobs/async_jobs.h"
#include "server/jobs/job_message.h"
#include "server/rest/prefer.h"
#include "server/rest/question_pool.h"
#include "server/results/digest.h"
#include "tests/client/temp_folder.h"
#include "tests/server/jobs/idle_queue.h"
#include "tests/server/jobs/worker_of.h"
#include "tests/server/rest/forms.h"
#include "tests/server/rest/rest_environment.h"
#include "tests/support/await.h"

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
  // The id of the job told to `client`.
  static std::string IdOf(const FakeClient& client) {
    EXPECT_EQ(client.status(), 202) << client.body();
    return json::parse(client.body(), nullptr, false).value("id", "");
  }

  const client::TempFolder folder_;
  Timer timer_;
  WorkerOf worker_{folder_ / "queue"};
  const std::unique_ptr<AsyncJobs> jobs_ =
      *AsyncJobs::Open(timer_, {.queue = folder_ / "queue", .store = folder_ / "store"});
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

  const LeasedJob leased = worker_.Take();
  const Task task = WorkerOf::TaskOf(leased);
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
  const Task task = WorkerOf::TaskOf(worker_.Take());
  EXPECT_TRUE(client::ReadText(task.source) == image);
  EXPECT_EQ(task.options.scale(), 1.5);
}

TEST_F(JobCallsTest, OptionsAreCheckedFirst) {
  EXPECT_EQ(env_.Post("scale=99", PngOf(8, 8), kAsync)->status(), 400);
  EXPECT_EQ(env_.Post("model=best", PngOf(8, 8), kAsync)->status(), 404);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
}

TEST_F(JobCallsTest, TheSourceOfAJobHasTheDigestThatItsSenderNames) {
  const std::string image = PngOf(20, 10);
  const auto post = [&](const std::string& named) {
    std::vector<HttpField> fields = kAsync;
    const std::string digest(AsText(DigestOf(AsBytes(named))));
    fields.push_back(
        {"Content-Digest", absl::StrCat("sha-256=:", absl::Base64Escape(digest), ":")});
    return env_.Post("", image, std::move(fields));
  };
  const auto refused = post(image + "x");
  EXPECT_EQ(refused->status(), 400) << refused->body();
  EXPECT_THAT(refused->body(), HasSubstr("SHA-256"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
  IdOf(*post(image));
  EXPECT_TRUE(client::ReadText(WorkerOf::TaskOf(worker_.Take()).source) == image);
}

TEST_F(JobCallsTest, ATimeoutOfAJobIsRefused) {
  const auto refused = env_.Post("timeout=5", PngOf(8, 8), kAsync);
  EXPECT_EQ(refused->status(), 400) << refused->body();
  EXPECT_THAT(refused->body(), HasSubstr("timeout"));
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

// Says nothing until it is told to.
class SilentQueue final : public IdleQueue {
 public:
  absl::StatusOr<std::vector<JobInfo>> List(const JobFilter&) override {
    ++asked;
    answer.WaitForNotification();
    return absl::UnavailableError("lost the broker");
  }

  std::atomic<int> asked = 0;
  absl::Notification answer;
};

// Questions about jobs took all request workers.
TEST(SilentQueueTest, HoldsUpQuestionsAndNoImage) {
  const client::TempFolder folder;
  Timer timer;
  SilentQueue* queue = nullptr;
  const auto jobs = *AsyncJobs::Open(timer, {.store = folder / "store"},
                                     [&](const std::string&) -> std::unique_ptr<JobQueue> {
                                       auto made = std::make_unique<SilentQueue>();
                                       queue = made.get();
                                       return made;
                                     });
  RestEnvironment env({}, {.jobs = jobs.get()});
  const auto ask = [&env](int tenant = 0) {
    HttpRequest request{.path = "/v1/jobs", .query = "batch=b"};
    request.caller = std::make_shared<Principal>(
        Principal{.name = "key", .tenant = absl::StrCat("tenant ", tenant)});
    return env.Call("GET", std::move(request));
  };
  std::vector<std::shared_ptr<FakeClient>> askers;
  const auto fill = [&](int tenant) {
    for (int i = 0; i < QuestionPool::kMaxOfPayer; ++i) askers.push_back(ask(tenant));
  };
  const auto expect_refusal = [&](int tenant, const char* why) {
    const auto refused = ask(tenant);
    refused->AwaitEnd();
    EXPECT_EQ(refused->status(), 429) << refused->body();
    EXPECT_EQ(refused->Field("Retry-After"), "1");
    EXPECT_THAT(refused->body(), HasSubstr(why));
  };
  fill(0);
  test::Await([&] { return queue->asked == QuestionPool::kThreads; });
  expect_refusal(0, "16 questions of yours");
  for (const int other : {1, 2, 3}) fill(other);
  expect_refusal(4, "64 questions wait");
  EXPECT_EQ(env.Post("", PngOf(8, 8))->status(), 200);
  queue->answer.Notify();
  for (const auto& asker : askers) {
    asker->AwaitEnd();
    EXPECT_EQ(asker->status(), 503);
  }
  test::Await([&] {  // the last one may not have left yet
    const auto again = ask();
    again->AwaitEnd();
    return again->status() == 503;
  });
}

TEST_F(JobCallsTest, AQueueThatCannotBeUsedIsNoFaultOfTheClient) {
  auto database = SqliteFile::Open(folder_ / "queue/jobs.sqlite", "the jobs");
  ASSERT_TRUE(database.ok() && database->Execute("DROP TABLE jobs_1").ok());
  const auto client = env_.Post("", PngOf(8, 8), kAsync);
  EXPECT_EQ(client->status(), 503) << client->body();
  EXPECT_EQ(client->Field("Retry-After"), "1");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
}

// A caller of a tenant's, with a body.
std::shared_ptr<FakeClient> Send(RestEnvironment& env, const std::string& method,
                                 const std::string& path, const std::string& query,
                                 const std::string& tenant, const std::string& type = "",
                                 const std::string& body = "") {
  HttpRequest request{.path = path, .query = query, .content_length = body.size()};
  if (!type.empty()) request.fields.push_back({"Content-Type", type});
  if (!tenant.empty()) {
    request.caller = std::make_shared<Principal>(Principal{.name = "key", .tenant = tenant});
  }
  auto client = env.Call(method, std::move(request));
  client->Send(body);
  client->AwaitEnd();
  return client;
}

json JsonOf(const FakeClient& client, int status) {
  EXPECT_EQ(client.status(), status) << client.body();
  return json::parse(client.body(), nullptr, false);
}

std::string Form(const std::vector<std::string>& images, const std::string& more = "") {
  std::string form;
  for (const std::string& image : images) {
    form += "--XX\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\n" +
            image + "\r\n";
  }
  return form + more + "--XX--\r\n";
}
constexpr char kFormType[] = "multipart/form-data; boundary=XX";

TEST_F(JobCallsTest, WebhooksAndReferencesAreForJobs) {
  const std::string asked = "webhook=https://example.org/hook?key=1&reference=order%207";
  const std::string id = IdOf(*env_.Post(asked, PngOf(8, 8), kAsync));
  const LeasedJob leased = worker_.Take();
  const Task task = WorkerOf::TaskOf(leased);
  EXPECT_EQ(task.webhook, "https://example.org/hook?key=1");
  EXPECT_EQ(task.reference, "order 7");
  EXPECT_EQ(task.shown_output, "/v1/jobs/" + id + "/result");
  EXPECT_EQ(task.shown_source, "upload") << "and no path of the server's";
  EXPECT_EQ(Job(id)["reference"], "order 7");
  for (const std::string& query :
       {asked, std::string("reference=a"), std::string("webhook=http://a")}) {
    EXPECT_EQ(env_.Post(query, PngOf(8, 8))->status(), 415) << "nothing would come of it";
  }
  for (const std::string wrong : {"webhook=ftp://a", "webhook=/hook", "webhook=https://",
                                  "webhook=https://u:p@a/", "webhook=https://a/%0d%0aX:1"}) {
    EXPECT_EQ(env_.Post(wrong, PngOf(8, 8), kAsync)->status(), 400) << wrong;
  }
  EXPECT_EQ(env_.Post("reference=" + std::string(257, 'a'), PngOf(8, 8), kAsync)->status(), 400);
}

TEST_F(JobCallsTest, ThePriorityIsTheWorkers) {
  const auto refused = env_.Post("", PngOf(20, 10),
                                 {{"Prefer", "respond-async"}, {"Upscale-Priority", "background"}});
  EXPECT_EQ(refused->status(), 400) << refused->body();
  EXPECT_THAT(refused->body(), testing::HasSubstr("upscale-worker --priority"));
}

TEST_F(JobCallsTest, ACancelledJobsWebhookIsTold) {
  const std::string id = IdOf(*env_.Post("webhook=https://a.example/", PngOf(8, 8), kAsync));
  EXPECT_EQ(Call("DELETE", "/v1/jobs/{id}", id)->status(), 204);
  EXPECT_EQ(Call("DELETE", "/v1/jobs/{id}", id)->status(), 204);
  const LeasedJob message = worker_.Take();
  EXPECT_EQ(WorkerOf::TaskOf(message).ended_job->id, id);
  EXPECT_EQ(*worker_.queue().Lease(absl::Minutes(1)), std::nullopt) << "once";
}

TEST_F(JobCallsTest, WarningsOfAResultAreTold) {
  const std::string id = IdOf(*env_.Post("", PngOf(8, 8), kAsync));
  EXPECT_EQ(Job(id)["warnings"], json::array());
  const LeasedJob leased = worker_.Take();
  client::WriteText(WorkerOf::TaskOf(leased).output, PngOf(16, 16));
  const std::string report =
      R"({"result": "abc.png", "computed": true, "warnings": ["alpha is left out", "cut \"short\""]})";
  ASSERT_TRUE(worker_.queue().Complete(leased, report).ok());
  EXPECT_EQ(Job(id)["warnings"], json({"alpha is left out", "cut \"short\""}));
  const auto result = Call("GET", "/v1/jobs/{id}/result", id);
  EXPECT_EQ(result->status(), 200);
  EXPECT_EQ(result->Field("Upscale-Warning"), "\"alpha is left out\", \"cut ?short?\"");
  const auto events = env_.Call("GET", {.path = "/v1/jobs/{id}/events", .parameter = id});
  events->AwaitEnd();
  EXPECT_THAT(events->body(), HasSubstr("alpha is left out"));
}

// A report may be of another release, or damaged.
TEST_F(JobCallsTest, ReportsWithoutWarningsHaveNone) {
  for (const char* report :
       {R"({"result": "abc.png", "computed": true})", R"({"result": "abc.png", "warnings": 1})",
        R"({"result": "abc.png", "warnings": [1, null]})", "", "[]"}) {
    const std::string id = IdOf(*env_.Post("webhook=https://a.example/", PngOf(8, 8), kAsync));
    ASSERT_TRUE(worker_.queue().Complete(worker_.Take(), report).ok());
    EXPECT_EQ(Job(id)["state"], "done") << report;
    EXPECT_EQ(Job(id)["warnings"], json::array()) << report;
    EXPECT_EQ(Job(id)["webhook"], nullptr) << report;
  }
}

TEST_F(JobCallsTest, AJobTellsWhatBecameOfItsWebhook) {
  const auto webhook = [](const char* state, int tries, const json& error) {
    return json{{"state", state}, {"tries", tries}, {"error", error}};
  };
  const std::string without = IdOf(*env_.Post("", PngOf(8, 8), kAsync));
  EXPECT_EQ(Job(without)["webhook"], nullptr);
  worker_.Complete(worker_.Take(), "result");
  const auto submit = [&] {
    const auto submitted = env_.Post("webhook=https://a.example/", PngOf(8, 8), kAsync);
    EXPECT_EQ(json::parse(submitted->body())["webhook"], webhook("waiting", 0, nullptr));
    const std::string id = IdOf(*submitted);
    EXPECT_EQ(Job(id)["webhook"], webhook("waiting", 0, nullptr));
    return id;
  };
  const auto end = [&](const Telling& telling) {
    const LeasedJob job = worker_.Take();
    ASSERT_TRUE(worker_.queue().Complete(job, WithTelling("{}", telling)).ok());
  };
  const std::string told = submit();
  end({.told = true, .tries = 1});
  EXPECT_EQ(Job(told)["webhook"], webhook("told", 1, nullptr));

  const std::string gone = submit();
  end({.tries = 1, .answer = 410, .error = "the answer of 10.0.0.1 was 410"});
  EXPECT_EQ(Job(gone)["webhook"], webhook("failed", 1, "the answer was 410"));

  // And nothing of the operator's hosts.
  const std::string refused = submit();
  end({.tries = 1, .error = "its address 10.0.0.1 is private"});
  EXPECT_EQ(Job(refused)["webhook"],
            webhook("failed", 1, "no whole answer came; the operator knows why"));

  const std::string late = submit();
  const LeasedJob job = worker_.Take();
  const auto message =
      MakeMessage(WorkerOf::TaskOf(job), {.id = job.id, .state = JobState::kDone, .report = "{}"});
  ASSERT_TRUE(message.ok()) << message.status();
  ASSERT_TRUE(worker_.queue().Enqueue({&*message, 1}).ok());
  const Telling first{.tries = 1, .answer = 500, .message = message->id};
  ASSERT_TRUE(worker_.queue().Complete(job, WithTelling("{}", first)).ok());
  EXPECT_EQ(Job(late)["webhook"], webhook("waiting", 1, "the answer was 500"));
  LeasedJob leased = worker_.Take();
  ASSERT_EQ(leased.id, message->id);
  ASSERT_TRUE(worker_.queue().Retry(leased, WithTelling("", {.tries = 2, .answer = 503}), {}).ok());
  EXPECT_EQ(Job(late)["webhook"], webhook("waiting", 2, "the answer was 503"));
  leased = worker_.Take();
  ASSERT_TRUE(worker_.queue().Fail(leased, WithTelling("", {.tries = 3, .answer = 503})).ok());
  EXPECT_EQ(Job(late)["webhook"], webhook("failed", 3, "the answer was 503"));
  EXPECT_EQ(Call("GET", "/v1/jobs/{id}", message->id)->status(), 404) << "no caller's job";

  const std::string cancelled = submit();
  EXPECT_EQ(Call("DELETE", "/v1/jobs/{id}", cancelled)->status(), 204);
  EXPECT_EQ(Job(cancelled)["webhook"], webhook("waiting", 0, nullptr));
  leased = worker_.Take();
  ASSERT_TRUE(worker_.queue().Complete(leased, WithTelling("", {.told = true, .tries = 1})).ok());
  EXPECT_EQ(Job(cancelled)["webhook"], webhook("told", 1, nullptr));
}

TEST_F(JobCallsTest, AFormsImagesAreABatch) {
  const std::string first = PngOf(8, 8), second = PngOf(9, 9);
  const auto submitted =
      Send(env_, "POST", "/v1/jobs", "scale=3", "ada", kFormType,
           Form({first, second},
                "--XX\r\nContent-Disposition: form-data; name=\"reference\"\r\n\r\nr\r\n"));
  const json batch = JsonOf(*submitted, 202);
  ASSERT_EQ(batch["jobs"].size(), 2u);
  EXPECT_EQ(submitted->Field("Location"), "/v1/jobs?batch=" + batch["batch"].get<std::string>());
  for (const auto& [job, image] :
       {std::pair(batch["jobs"][0], first), {batch["jobs"][1], second}}) {
    const LeasedJob leased = worker_.Take();
    const Task task = WorkerOf::TaskOf(leased);
    EXPECT_EQ(job["id"], leased.id);
    EXPECT_EQ(job["batch"], batch["batch"]);
    EXPECT_EQ(job["reference"], "r");
    EXPECT_TRUE(client::ReadText(task.source) == image);
    EXPECT_EQ(task.options.scale(), 3);
    EXPECT_EQ(task.shown_source, "a.png");
  }
  EXPECT_EQ(env_.records().front().method, "SubmitJobs");
}

TEST_F(JobCallsTest, ItsTenantPaysForABatchAndForWhatFails) {
  const std::string form = Form({PngOf(8, 8)});
  for (const std::string query : {"", "scale=99"}) {
    const std::string tenant = "shop" + query;
    TenantLimits limits{.tenant = tenant, .bytes_per_second = 1};
    const auto send = [&](const std::string& path) {
      HttpRequest request{.path = path,
                          .query = query,
                          .fields = {{"Content-Type", kFormType}},
                          .content_length = form.size()};
      request.caller = std::make_shared<Principal>(Principal{
          .name = "key", .tenant = tenant, .limits = std::make_shared<const TenantLimits>(limits)});
      const auto client = env_.Call("POST", std::move(request));
      client->Send(form);
      client->AwaitEnd();
      return client->status();
    };
    EXPECT_EQ(send("/v1/jobs"), query.empty() ? 202 : 400);
    EXPECT_EQ(send("/v1/jobs"), 429) << "the bytes of the one before";
    EXPECT_EQ(send("/v1/upscale"), 429);
  }
}

TEST_F(JobCallsTest, ABatchIsQueuedWholeOrNotAtAll) {
  const std::string large(150'000, 'x');
  EXPECT_EQ(Send(env_, "POST", "/v1/jobs", "", "", kFormType, Form({PngOf(8, 8), large}))->status(),
            413);
  EXPECT_EQ(
      Send(env_, "POST", "/v1/jobs", "scale=99", "", kFormType, Form({PngOf(8, 8)}))->status(),
      400);
  EXPECT_EQ(
      Send(env_, "POST", "/v1/jobs", "dry_run=1", "", kFormType, Form({PngOf(8, 8)}))->status(),
      400);
  EXPECT_EQ(Send(env_, "POST", "/v1/jobs", "", "", kFormType, Form({}))->status(), 400);
  EXPECT_EQ(Send(env_, "POST", "/v1/jobs", "", "", "image/png", PngOf(8, 8))->status(), 400);
  std::string cut = Form({PngOf(8, 8), PngOf(8, 8)});
  cut.resize(cut.size() - 10);
  EXPECT_EQ(Send(env_, "POST", "/v1/jobs", "", "", kFormType, cut)->status(), 400);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "store"));
  EXPECT_TRUE(worker_.queue().Count()->empty());
}

TEST_F(JobCallsTest, UrlsOfABatchAreForWorkersWithinTheFetchersLimits) {
  RestEnvironment env(
      {}, {.fetch = {.allowed = *ParseUrlPrefixes({"https://a.example/"})}, .jobs = jobs_.get()});
  const std::string type = "application/json";
  const json batch = JsonOf(*Send(env, "POST", "/v1/jobs", "noise_level=1", "ada", type,
                                  R"({"scale": 2, "webhook": "https://hook.example/", "jobs": [
                {"url": "https://a.example/1.png", "reference": "one"},
                {"url": "https://a.example/2.png?token=secret", "scale": 3}]})"),
                            202);
  const Task first = WorkerOf::TaskOf(worker_.Take());
  const Task second = WorkerOf::TaskOf(worker_.Take());
  EXPECT_EQ(first.source, "https://a.example/1.png");
  EXPECT_EQ(first.options.scale(), 2);
  EXPECT_EQ(second.options.scale(), 3);
  EXPECT_EQ(second.options.noise_level(), 1);
  EXPECT_EQ(second.webhook, "https://hook.example/");
  EXPECT_EQ(batch["jobs"][0]["reference"], "one");
  EXPECT_EQ(batch["jobs"][1]["reference"], nullptr);
  const auto refused = Send(env, "POST", "/v1/jobs", "", "ada", type,
                            R"({"jobs": [{"url": "https://a.example/"},
                                         {"url": "https://b.example/"}]})");
  EXPECT_EQ(refused->status(), 403);
  EXPECT_THAT(refused->body(), HasSubstr("jobs[1]"));
  for (const char* wrong :
       {"", "[]", "{}", R"({"jobs": []})", R"({"jobs": [1]})", R"({"jobs": {"url": "x"}})",
        R"({"jobs": [{}]})", R"({"jobs": [{"url": {}}]})", R"({"jobs": [[]]})",
        R"({"jobs": [{"url": "https://a.example/", "best": 1}]})",
        R"({"jobs": [{"url": "https://a.example/"}], "jobs": []})", R"({"jobs": [{"url")",
        R"({"jobs": [{"url": "https://a.example/", "scale": 99}]})"}) {
    EXPECT_EQ(Send(env, "POST", "/v1/jobs", "", "ada", type, wrong)->status(), 400) << wrong;
  }
  std::string many = R"({"jobs": [)";
  for (int i = 0; i <= 1000; ++i) many += R"({"url": "https://a.example/"},)";
  many.back() = ']';
  EXPECT_EQ(Send(env, "POST", "/v1/jobs", "", "ada", type, many + "}")->status(), 400);
  EXPECT_EQ(worker_.queue().Count()->at(JobState::kRunning), 2);
  EXPECT_EQ(worker_.queue().Count()->count(JobState::kWaiting), 0u);
}

TEST_F(JobCallsTest, ListsATenantsJobsInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    const auto batch = Send(env_, "POST", "/v1/jobs", "reference=r" + std::to_string(i), "ada",
                            kFormType, Form({PngOf(8, 8)}));
    ids.push_back(JsonOf(*batch, 202)["jobs"][0]["id"]);
  }
  const std::string others = JsonOf(
      *Send(env_, "POST", "/v1/jobs", "reference=a%20b", "bob", kFormType, Form({PngOf(8, 8)})),
      202)["batch"];
  ASSERT_EQ(Send(env_, "GET", "/v1/jobs", "", "ada")->status(), 200);
  const auto list = [&](const std::string& query, const std::string& tenant = "ada") {
    return JsonOf(*Send(env_, "GET", "/v1/jobs", query, tenant), 200);
  };
  const auto names = [](const json& page) {
    std::vector<std::string> found;
    for (const json& job : page["jobs"]) found.push_back(job["id"]);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names(list("")), ElementsAre(ids[2], ids[1], ids[0]));
  const json first = list("limit=2");
  EXPECT_THAT(names(first), ElementsAre(ids[2], ids[1]));
  const std::string next = first["next"];
  ASSERT_THAT(next, testing::StartsWith("/v1/jobs?"));
  const json second = list(next.substr(next.find('?') + 1));
  EXPECT_THAT(names(second), ElementsAre(ids[0]));
  EXPECT_EQ(second["next"], nullptr);
  EXPECT_THAT(names(list("reference=r1")), ElementsAre(ids[1]));
  EXPECT_THAT(names(list("state=waiting&limit=1")), ElementsAre(ids[2]));
  EXPECT_THAT(names(list("state=done")), testing::IsEmpty());
  EXPECT_THAT(names(list("batch=" + others)), testing::IsEmpty()) << "another tenant's";
  EXPECT_THAT(list("limit=1&reference=a%20b", "bob")["next"].get<std::string>(),
              HasSubstr("reference=a%20b"));
  for (const std::string wrong :
       {"state=waiting&state=done", "state=done&state=done", "limit=1&limit=5", "before=a&before=b",
        "reference=a&reference=", "batch=a&batch=b", "state=lost", "limit=0", "limit=1001",
        "limit=x", "tenant=bob", "before=none"}) {
    EXPECT_EQ(Send(env_, "GET", "/v1/jobs", wrong, "ada")->status(), 400) << wrong;
  }
  EXPECT_EQ(Send(env_, "GET", "/v1/jobs", "before=" + ids[0], "bob")->status(), 400);
}

// They have only their ids.
TEST_F(JobCallsTest, CallersWithoutAKeyListABatchTheyKnow) {
  const json batch =
      JsonOf(*Send(env_, "POST", "/v1/jobs", "", "", kFormType, Form({PngOf(8, 8)})), 202);
  const auto all = Send(env_, "GET", "/v1/jobs", "", "");
  EXPECT_EQ(all->status(), 400);
  EXPECT_THAT(all->body(), HasSubstr("batch"));
  const std::string query = "batch=" + batch["batch"].get<std::string>();
  EXPECT_EQ(JsonOf(*Send(env_, "GET", "/v1/jobs", query, ""), 200)["jobs"].size(), 1u);
  EXPECT_EQ(JsonOf(*Send(env_, "GET", "/v1/jobs", query, "ada"), 200)["jobs"].size(), 0u);
}

TEST_F(JobCallsTest, EventsTellOfAJobUntilItsEnd) {
  const std::string id = IdOf(*env_.Post("", PngOf(8, 8), kAsync));
  const auto client = env_.Call("GET", {.path = "/v1/jobs/{id}/events", .parameter = id});
  test::Await([&] { return client->body().find("\"waiting\"") != std::string::npos; });
  const LeasedJob leased = worker_.Take();
  ASSERT_TRUE(worker_.queue().Extend(leased, absl::Minutes(1), {.tiles_done = 1, .tiles = 2}).ok());
  test::Await([&] { return client->body().find("event: tiles") != std::string::npos; });
  worker_.Complete(leased, "result");
  client->AwaitEnd();
  EXPECT_TRUE(client->finished());
  EXPECT_EQ(client->Field("Content-Type"), "text/event-stream");
  EXPECT_THAT(client->body(), HasSubstr("data: {\"tiles_done\":1,\"tiles\":2}"));
  EXPECT_THAT(client->body(), HasSubstr("\"done\""));

  // The drain of a server does not wait for a job.
  const std::string waits = IdOf(*env_.Post("", PngOf(8, 8), kAsync));
  const auto listener = env_.Call("GET", {.path = "/v1/jobs/{id}/events", .parameter = waits});
  const auto idle = env_.Call("GET", {.path = "/v1/progress/{request_id}", .parameter = "any"});
  test::Await([&] { return listener->body().find("\"waiting\"") != std::string::npos; });
  EXPECT_FALSE(listener->finished() || idle->finished());
  env_.service().EndStreams();
  const auto late = env_.Call("GET", {.path = "/v1/jobs/{id}/events", .parameter = waits});
  for (const auto& ended : {listener, idle, late}) {
    ended->AwaitEnd();
    EXPECT_TRUE(ended->finished());
  }
  EXPECT_THAT(late->body(), HasSubstr("\"waiting\""));

  const auto none = env_.Call("GET", {.path = "/v1/jobs/{id}/events", .parameter = "none"});
  none->AwaitEnd();
  EXPECT_THAT(none->body(), HasSubstr("event: failed\n"));
  EXPECT_THAT(none->body(), HasSubstr("no job of this id is yours"));
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
