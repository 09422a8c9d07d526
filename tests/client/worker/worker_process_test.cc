// The real `upscale submit`, `upscale jobs` and `upscale-worker` against a fake server.
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/cli/exit_code.h"
#include "client/worker/s3.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/jobs/sqlite_queue.h"
#include "tests/client/environment_variable.h"
#include "tests/client/fake_http_server.h"
#include "tests/client/fake_server.h"
#include "tests/client/process.h"
#include "tests/client/temp_folder.h"
#include "tests/client/worker/fake_s3.h"
#include "tests/support/await.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerProcessTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }

  ProcessResult Upscale(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), UPSCALE_BINARY);
    arguments.insert(arguments.end(), {"--queue", Path("queue")});
    return Process(arguments, input).Wait();
  }
  std::vector<std::string> Worker(std::vector<std::string> more = {}) const {
    std::vector<std::string> command = {WORKER_BINARY, "--queue",          Path("queue"),
                                        "--server",    server_.endpoint(), "--until-empty"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  // The record of the only job.
  nlohmann::json Job() {
    const ProcessResult listed = Upscale({"jobs", "--json"});
    EXPECT_EQ(listed.exit_code, kExitOk) << listed.err;
    return nlohmann::json::parse(listed.out, nullptr, /*allow_exceptions=*/false);
  }
  // The first computing call tells of its begin and lasts until the client is gone.
  void HangFirst() {
    server_.OnImage([this](FakeImageCall& call) {
      call.ReceiveAll();
      if (call.start.name_only() || computations_++ > 0) return FakeServer::Serve(call);
      call.SendHeader();
      call.SendProgress(1);
      begun_.Notify();
      call.WaitForCancellation();
      return grpc::Status::CANCELLED;
    });
  }

  TempFolder folder_;
  FakeServer server_;
  std::atomic<int> computations_ = 0;
  absl::Notification begun_;
};

TEST_F(WorkerProcessTest, FoldersFilesAndListsAreUpscaled) {
  WriteText(Path("in/a.png"), "a");
  WriteText(Path("in/deep/b.jpg"), "b");
  WriteText(Path("c.png"), "c");
  WriteText(Path("bad.png"), "bad");
  const ProcessResult submitted = Upscale(
      {"submit", "-i", Path("in"), "--list", "-", "-o", Path("out"), "-f", "webp", "--json"},
      Path("c.png") + "\n\n" + Path("bad.png") + "\n");
  ASSERT_EQ(submitted.exit_code, kExitOk) << submitted.err;
  EXPECT_THAT(Upscale({"jobs"}).out, HasSubstr("4 waiting"));
  const ProcessResult worked = Process(Worker()).Wait();
  EXPECT_EQ(worked.exit_code, kExitOk) << worked.err;
  for (const char* name : {"a", "deep/b", "c"}) {
    EXPECT_EQ(ReadText(Path("out/" + std::string(name) + ".webp")),
              FakeResult(std::string(name).substr(std::string(name).size() - 1)));
  }
  const ProcessResult listed = Upscale({"jobs"});
  EXPECT_THAT(listed.out, HasSubstr("3 done, 1 failed"));
  EXPECT_THAT(listed.out, HasSubstr("not an image"));
}

TEST_F(WorkerProcessTest, WhatAKilledWorkerHadIsDoneByTheNext) {
  HangFirst();
  WriteText(Path("a.png"), "a");
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("a-2x.png")}).exit_code, kExitOk);
  // One thread: a second one would lease the job again should the first be late with its heartbeat.
  Process killed(Worker({"--lease", "1", "-j", "1"}));
  ASSERT_TRUE(begun_.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_EQ(Job()["state"], "running");
  killed.Signal(SIGKILL);
  killed.Wait();
  const ProcessResult worked = Process(Worker()).Wait();
  EXPECT_EQ(worked.exit_code, kExitOk) << worked.err;
  EXPECT_EQ(Job()["state"], "done");
  EXPECT_EQ(Job()["deliveries"], 2);
  EXPECT_EQ(ReadText(Path("a-2x.png")), FakeResult("a"));
  EXPECT_EQ(computations_, 2);
}

TEST_F(WorkerProcessTest, SigtermHandsBackWhatDoesNotEndInTime) {
  HangFirst();
  WriteText(Path("a.png"), "a");
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("a-2x.png")}).exit_code, kExitOk);
  Process stopped(Worker({"--drain-timeout", "0"}));
  ASSERT_TRUE(begun_.WaitForNotificationWithTimeout(absl::Minutes(1)));
  stopped.Signal(SIGTERM);
  const ProcessResult ended = stopped.Wait();
  EXPECT_EQ(ended.exit_code, kExitOk) << ended.err;
  EXPECT_EQ(Job()["state"], "waiting");
  EXPECT_EQ(Job()["deliveries"], 0);
}

TEST_F(WorkerProcessTest, Cancels) {
  WriteText(Path("a.png"), "a");
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("b.png")}).exit_code, kExitOk);
  const std::string id = Job()["id"];
  EXPECT_EQ(Upscale({"jobs", "cancel", id}).exit_code, kExitOk);
  EXPECT_EQ(Job()["state"], "cancelled");
  EXPECT_THAT(Upscale({"jobs", "cancel", "nobody"}).err, HasSubstr("no job nobody"));
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("c.png")}).exit_code, kExitOk);
  EXPECT_THAT(Upscale({"jobs", "cancel", "--all"}).out, HasSubstr("1 job cancelled"));
  EXPECT_EQ(Process(Worker()).Wait().exit_code, kExitOk);
  EXPECT_EQ(server_.starts().size(), 0u);
}

TEST_F(WorkerProcessTest, FollowsJobsToTheirEnd) {
  HangFirst();
  WriteText(Path("a.png"), "a");
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("a-2x.png")}).exit_code, kExitOk);
  const std::string id = Job()["id"];
  EXPECT_EQ(Job()["progress"], nullptr);
  Process follower({UPSCALE_BINARY, "jobs", "follow", id, "--queue", Path("queue")});
  Process killed(Worker({"--lease", "1", "-j", "1"}));
  ASSERT_TRUE(begun_.WaitForNotificationWithTimeout(absl::Minutes(1)));
  test::Await([&] { return Job()["progress"] != nullptr; });
  EXPECT_EQ(Job()["progress"]["tiles_done"], 1);
  EXPECT_THAT(Upscale({"jobs"}).out, HasSubstr(absl::StrCat("(1 of ", FakeImageCall::kTiles)));
  killed.Signal(SIGKILL);
  killed.Wait();
  EXPECT_EQ(Process(Worker()).Wait().exit_code, kExitOk);
  const ProcessResult followed = follower.Wait();
  EXPECT_EQ(followed.exit_code, kExitOk) << followed.err;
  EXPECT_THAT(followed.out, HasSubstr(id + "  done "));
  EXPECT_EQ(Upscale({"jobs", "follow", "nobody"}).exit_code, kExitLocalError);
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("b.png")}).exit_code, kExitOk);
  const std::string unwanted =
      nlohmann::json::parse(Upscale({"jobs", "--json", "-n", "1"}).out)["id"];
  ASSERT_EQ(Upscale({"jobs", "cancel", unwanted}).exit_code, kExitOk);
  EXPECT_EQ(Upscale({"jobs", "follow", id, unwanted}).exit_code, kExitSomeFailed);
}

class S3ProcessTest : public WorkerProcessTest {
 protected:
  void SetUp() override {
    const S3Access access{.key_id = FakeS3::kKeyId, .secret = FakeS3::kSecret};
    const absl::Status built = HttpUrlOf("s3://b/k", access).status();
    if (!built.ok()) GTEST_SKIP() << built;
  }

  FakeS3 s3_;
  const EnvironmentVariable region_{"AWS_REGION", FakeS3::kRegion},
      key_id_{"AWS_ACCESS_KEY_ID", FakeS3::kKeyId},
      secret_{"AWS_SECRET_ACCESS_KEY", FakeS3::kSecret};
};

TEST_F(S3ProcessTest, JobsAreSubmittedToItAndResultsAreThere) {
  s3_.Put("/pictures/in/a%3Fb%23.png", "a");
  s3_.Put("/pictures/in/c.png", "c");
  const ProcessResult submitted =
      Upscale({"submit", "-i", "s3://pictures/in/a?b#.png", "s3://pictures/in/c.png", "-o",
               "s3://pictures/out/", "-f", "webp"});
  ASSERT_EQ(submitted.exit_code, kExitOk) << submitted.err;
  const std::vector<std::string> flags = {"--results", "s3://pictures/results", "--s3-endpoint",
                                          s3_.endpoint()};
  {
    const EnvironmentVariable none("AWS_SECRET_ACCESS_KEY", "");
    const ProcessResult refused = Process(Worker(flags)).Wait();
    EXPECT_EQ(refused.exit_code, kExitLocalError);
    EXPECT_THAT(refused.err, HasSubstr("AWS_SECRET_ACCESS_KEY"));
  }
  const ProcessResult worked = Process(Worker(flags)).Wait();
  ASSERT_EQ(worked.exit_code, kExitOk) << worked.err;
  EXPECT_THAT(Upscale({"jobs"}).out, HasSubstr("2 done"));
  auto objects = s3_.objects();
  EXPECT_EQ(objects["/pictures/out/a%3Fb%23.webp"], FakeResult("a"));
  EXPECT_EQ(objects["/pictures/out/c.webp"], FakeResult("c"));
  EXPECT_EQ(objects.size(), 6u);  // sources, outputs and results
}

TEST_F(WorkerProcessTest, ListsWhatIsNoTask) {
  const auto queue = server::SqliteQueue::Open(Path("queue"));
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->Enqueue({{{.id = "odd", .task = R"({"source": 1, "output": []})"}}}).ok());
  const ProcessResult listed = Upscale({"jobs"});
  EXPECT_EQ(listed.exit_code, kExitOk) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("odd  waiting   ?\n"));
}

TEST_F(WorkerProcessTest, LooksForNoJobsInAQueueThatIsNotThere) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"jobs"},
                                                    {"jobs", "--json"},
                                                    {"jobs", "follow", "a"},
                                                    {"jobs", "cancel", "a"},
                                                    {"jobs", "cancel", "--all"}}) {
    const ProcessResult result = Upscale(arguments);
    EXPECT_EQ(result.exit_code, kExitLocalError) << arguments.back();
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("there is no queue in " + Path("queue")));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("queue")));
  WriteText(Path("a.png"), "a");
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("b.png")}).exit_code, kExitOk);
  EXPECT_THAT(Upscale({"jobs"}).out, HasSubstr("1 waiting"));
}

TEST_F(WorkerProcessTest, ListsWarningsAndWebhooksThatDoNotAnswer) {
  server_.OnImage([](FakeImageCall& call) {
    call.ReceiveAll();
    call.header_warnings = {"alpha is left out"};
    return FakeServer::Serve(call);
  });
  const FakeHttpServer gone([](const FakeHttpRequest&) { return FakeAnswer("410 Gone", "", ""); });
  WriteText(Path("a.png"), "a");
  ASSERT_EQ(Upscale({"submit", "-i", Path("a.png"), "-o", Path("b.png"), "--webhook", gone.url()})
                .exit_code,
            kExitOk);
  const ProcessResult worked = Process(Worker({"--allow-private-urls", gone.url() + "/"})).Wait();
  EXPECT_EQ(worked.exit_code, kExitOk) << worked.err;
  EXPECT_THAT(worked.err, HasSubstr("warning: alpha is left out"));
  const ProcessResult listed = Upscale({"jobs"});
  EXPECT_THAT(listed.out, HasSubstr("\n  warning: alpha is left out\n"));
  EXPECT_THAT(listed.out, HasSubstr("\n  the webhook was not told after 1 try: "));
  EXPECT_THAT(listed.out, HasSubstr("the answer was 410"));
  EXPECT_EQ(Job()["webhook"]["answer"], 410);
  EXPECT_EQ(Job()["report"]["warnings"][0], "alpha is left out");
}

TEST_F(WorkerProcessTest, SaysWhatCannotBeSubmittedOrWorkedOn) {
  WriteText(Path("x/a.png"), "a");
  WriteText(Path("y/a.png"), "a");
  WriteText(Path("\xff.png"), "a");
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } kWrong[] = {
      {{"submit", "-o", "out/"}, "nothing to submit"},
      {{"submit", "-i", "-", "-o", "out/"}, "standard input"},
      {{"submit", "-i", Path("none.png"), "-o", "out/"}, "none.png"},
      {{"submit", "-i", Path("\xff.png"), "-o", "out/"}, "UTF-8"},
      {{"submit", "--list", Path("none"), "-o", "out/"}, "cannot read"},
      {{"submit", "-i", Path("x/a.png"), Path("y/a.png"), "-o", "out"}, "both become"},
  };
  for (const auto& [arguments, says] : kWrong) {
    const ProcessResult result = Upscale(arguments);
    EXPECT_NE(result.exit_code, kExitOk) << says;
    EXPECT_THAT(result.err, HasSubstr(says));
  }
  const ProcessResult by_url = Process({WORKER_BINARY, "--queue", "ftp://me:hidden@host"}).Wait();
  EXPECT_EQ(by_url.exit_code, kExitBadArguments);
  EXPECT_THAT(by_url.err, HasSubstr("is not built in; these are: a folder"));
  EXPECT_THAT(by_url.err, Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace upscaled::client
