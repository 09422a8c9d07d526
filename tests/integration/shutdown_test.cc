// The server as a process: its reaction to signals, and its end even if something hangs.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/unique_fd.h"
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
  // A slow machine refuses few calls a second: that takes more of them.
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

// A connection to "127.0.0.1:PORT" that is read as slowly as the test likes.
class SlowClient {
 public:
  SlowClient(const std::string& address, const std::string& request)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    constexpr int kBytes = 4096;
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &kBytes, sizeof kBytes);
    sockaddr_in to = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(send(fd_.get(), request.data(), request.size(), MSG_NOSIGNAL), std::ssize(request));
  }
  // Waits for bytes; "": the server has ended the connection. An error fails the test.
  std::string Read() {
    std::string bytes(65536, '\0');
    const ssize_t count = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    EXPECT_GE(count, 0) << strerror(errno);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return bytes;
  }
  std::string ReadAll() {
    std::string all;
    for (std::string part = Read(); !part.empty(); part = Read()) all += part;
    return all;
  }

 private:
  const UniqueFd fd_;
};

// The first two were taken for a drain that hangs, and an upload was cut off without an answer.
TEST_F(ShutdownTest, ListenersReadersAndSendersHoldUpNoExit) {
  ServerProcess process(UPSCALED_BINARY, Flags({"--drain-timeout=60s"}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  SlowClient listener(process.http_address(), "GET /v1/progress/any HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(listener.Read(), HasSubstr("200 OK"));
  const Image image = test::PhotoImage({96, 64, 3, SampleType::kU8}, random_);
  const std::string png = *test::Encode(image.view(), {});
  SlowClient reader(process.http_address(),
                    absl::StrCat("POST /v1/upscale?scale=16&format=tiff&png_compression=0 HTTP/1.1",
                                 "\r\nHost: x\r\nContent-Length: ", png.size(), "\r\n\r\n", png));
  EXPECT_THAT(reader.Read(), HasSubstr("200 OK"));
  ASSERT_TRUE(process.AwaitLog("code=OK")) << process.log();  // only its client is left
  {
    SlowClient sender(
        process.http_address(),
        "POST /v1/upscale HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n\x89PNG");
    absl::SleepFor(absl::Seconds(1));  // its beginning has come
    process.Signal(SIGTERM);
    std::string refused = sender.Read();
    while (!absl::StrContains(refused, "DRAINING")) {
      const std::string more = sender.Read();
      ASSERT_NE(more, "") << refused;
      refused += more;
    }
    EXPECT_THAT(refused, testing::StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(refused, HasSubstr("Retry-After: "));
  }
  EXPECT_THAT(listener.ReadAll(), testing::EndsWith("0\r\n\r\n"));
  absl::SleepFor(ForcedExit::kGrace + absl::Seconds(1));
  EXPECT_THAT(reader.ReadAll(), testing::EndsWith("0\r\n\r\n"));
  EXPECT_EQ(process.Wait(), 0) << process.log();
  EXPECT_THAT(process.log(), Not(HasSubstr("the drain hangs")));
}

// A tile that runs cannot be interrupted.
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
