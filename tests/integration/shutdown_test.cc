// The server as a process: its reaction to signals, and its end even if something hangs.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/lifecycle/forced_exit.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/slow_model.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using grpc::health::v1::HealthCheckResponse;
using test::ServerProcess;
using ::testing::HasSubstr;
using ::testing::Not;

class ShutdownTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Flags(std::vector<std::string> more = {}) {
    more.push_back("--model-repository=engine/model/bundled");
    return more;
  }
  void Connect(const ServerProcess& process) {
    channel_ = grpc::CreateChannel(process.grpc_address(), grpc::InsecureChannelCredentials());
    stub_ = pb::UpscaleService::NewStub(channel_);
  }
  HealthCheckResponse::ServingStatus Health() {
    HealthCheckResponse response;
    grpc::ClientContext context;
    const auto health = grpc::health::v1::Health::NewStub(channel_);
    EXPECT_TRUE(health->Check(&context, {}, &response).ok());
    return response.status();
  }
  grpc::Status GetInfo() {
    grpc::ClientContext context;
    pb::GetServerInfoResponse response;
    return stub_->GetServerInfo(&context, {}, &response);
  }

  std::mt19937 random_ = test::FreshRandom();
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::UpscaleService::Stub> stub_;
};

TEST_F(ShutdownTest, ALameDuckStillServes) {
  ServerProcess process(UPSCALED_BINARY, Flags({"--lame-duck-delay=3s"}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  ASSERT_EQ(Health(), HealthCheckResponse::SERVING);
  const absl::Time start = absl::Now();
  process.Signal(SIGTERM);
  test::Await([&] { return Health() != HealthCheckResponse::SERVING; });
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU8}, random_);
  const Outcome outcome =
      UpscaleImage(*stub_, pb::UpscaleOptions(), *test::Encode(image.view(), {}));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(process.Wait(), 0) << process.log();
  EXPECT_GE(absl::Now() - start, absl::Seconds(3));
}

TEST_F(ShutdownTest, HangupReloadsAndStopsNothing) {
  ServerProcess process(UPSCALED_BINARY, Flags());
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("reloaded the models")) << process.log();
  for (const int ignored : {SIGUSR1, SIGUSR2, SIGPIPE}) process.Signal(ignored);
  EXPECT_TRUE(GetInfo().ok());
  EXPECT_EQ(Health(), HealthCheckResponse::SERVING);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.log();
}

TEST_F(ShutdownTest, HangupGoesOnWithANewAuditLog) {
  const TempFolder folder;
  const std::filesystem::path log = folder / "audit.log", renamed = folder / "audit.log.1";
  ServerProcess process(UPSCALED_BINARY, Flags({"--audit-log=" + log.string()}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  EXPECT_TRUE(GetInfo().ok());
  test::Await([&] { return !client::ReadText(log).empty(); });
  std::filesystem::rename(log, renamed);
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("opened the audit log again")) << process.log();
  pb::ListModelsResponse models;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->ListModels(&context, {}, &models).ok());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.log();
  for (const auto& [file, method] : {std::pair{renamed, "GetServerInfo"}, {log, "ListModels"}}) {
    const std::string lines = client::ReadText(file);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
    EXPECT_THAT(lines, HasSubstr(absl::StrCat("\"method\":\"", method, "\"")));
  }
}

TEST_F(ShutdownTest, AFailedReloadLeavesEverythingAsItWas) {
  TempFolder repository;
  test::WriteSlowModel(repository.path(), "slow");
  ServerProcess process(UPSCALED_BINARY,
                        Flags({"--model-repository=" + repository.path().string()}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  client::WriteText(repository.path() / "slow" / "model.json", "{");
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("the models stay as they were")) << process.log();
  EXPECT_TRUE(GetInfo().ok());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.log();
}

TEST_F(ShutdownTest, ALogThatNobodyReadsStopsNeitherCallsNorTheEnd) {
  ServerProcess process(UPSCALED_BINARY, Flags());
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  process.PauseReading();
  // More lines than the pipe holds.
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(GetInfo().ok()) << i;
  const absl::Time start = absl::Now();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

// As many lines as the limits of `Logger` let through: 100 at once and 10 a second of each kind.
TEST_F(ShutdownTest, RefusedCallsWriteFewLines) {
  constexpr int kBurst = 100, kLinesPerSecond = 10, kOtherLines = 50;
  ServerProcess process(UPSCALED_BINARY, Flags());
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  const absl::Time start = absl::Now();
  const auto allowed = [&] {
    return kBurst + kOtherLines + kLinesPerSecond * absl::ToDoubleSeconds(absl::Now() - start);
  };
  // A slow machine refuses few calls a second: with more of them.
  for (int i = 0; i < 1500 || i < 2 * allowed(); ++i) {
    grpc::ClientContext context;
    pb::UpscaleRequest request;
    request.set_image("no image");
    pb::UpscaleResponse response;
    ASSERT_EQ(stub_->Upscale(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  const std::string log = process.log();
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), allowed());
  EXPECT_THAT(log, HasSubstr("left out lines of a kind that comes too often"));
  EXPECT_THAT(log, HasSubstr("stopped"));
}

// A running tile cannot be interrupted.
TEST_F(ShutdownTest, ADrainThatHangsEndsHard) {
  TempFolder repository;
  test::WriteSlowModel(repository.path(), "slow");
  ServerProcess process(UPSCALED_BINARY, Flags({"--model-repository=" + repository.path().string(),
                                                "--device=reference", "--drain-timeout=1s"}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  Connect(process);
  const Image image = test::RandomImage({2000, 500, 3, SampleType::kU8}, random_);
  pb::UpscaleOptions options;
  options.set_model("slow");
  grpc::ClientContext context;
  const auto stream = stub_->UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(StartMessage(options)));
  ASSERT_TRUE(stream->Write(ChunkMessage(*test::Encode(image.view(), {}))));
  stream->WritesDone();
  pb::UpscaleImageResponse header;
  ASSERT_TRUE(stream->Read(&header));
  absl::SleepFor(absl::Milliseconds(500));  // the first tile runs
  const absl::Time start = absl::Now();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), ForcedExit::kExitCode) << process.log();
  EXPECT_LT(absl::Now() - start, absl::Seconds(1) + ForcedExit::kGrace);
  EXPECT_THAT(process.log(), HasSubstr("the drain hangs; the process ends with work left calls="));
  EXPECT_THAT(process.log(), Not(HasSubstr("tiles=0")));
}

}  // namespace
}  // namespace upscaled::server
