// The server as a process: how it starts, refuses to start, and ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/slow_model.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using client::WriteText;
using test::ServerProcess;
using test::WriteSlowModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kCannotStart = 2;

std::vector<std::string> Flags(std::vector<std::string> more = {}) {
  more.push_back("--model-repository=engine/model/bundled");
  return more;
}

// A result of 1.5 MB does not fit into the server's and the transport's queues.
const std::string kSmallQueues = "--output-ring-bytes=64KiB";

std::string OneLine(const ServerProcess& process) {
  const std::string log = process.log();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  return log;
}

class ProcessTest : public ::testing::Test {
 protected:
  // A call to keep a server with kSmallQueues busy until it is read.
  struct BusyCall {
    BusyCall(const std::string& address, std::mt19937& random) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // keeps the transport's own window small
      channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
      stub = pb::UpscaleService::NewStub(channel);
      stream = stub->UpscaleImage(&context);
      pb::UpscaleOptions options;
      options.set_png_compression(0);
      const Image image = test::RandomImage({32, 4000, 3, SampleType::kU8}, random);
      const std::string file = *test::Encode(image.view(), {.format = ImageFormat::kJpeg});
      stream->Write(StartMessage(options));
      for (size_t at = 0; at < file.size(); at += 100'000) {
        stream->Write(ChunkMessage(std::string_view(file).substr(at, 100'000)));
      }
      stream->WritesDone();
      pb::UpscaleImageResponse response;
      EXPECT_TRUE(stream->Read(&response));
      outcome.header = response.header();
    }
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<pb::UpscaleService::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<ClientStream> stream;
    Outcome outcome;
  };

  std::mt19937 random_ = test::FreshRandom();
};

// As when a build folder is moved away from its sources.
TEST_F(ProcessTest, AProgramWithoutItsModelsSaysHowToInstallThem) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "moved/bin");
  const std::string moved = folder / "moved/bin/upscaled";
  std::filesystem::copy_file(UPSCALED_BINARY, moved);
  ServerProcess process(moved, {});
  EXPECT_EQ(process.Wait(), kCannotStart);
  EXPECT_THAT(OneLine(process),
              AllOf(HasSubstr("cmake --install"), HasSubstr("--model-repository")));
  std::filesystem::create_directories(folder / "moved/share/upscaled");
  std::filesystem::copy("engine/model/bundled", folder / "moved/share/upscaled/models",
                        std::filesystem::copy_options::recursive);
  ServerProcess installed(moved, {"--decode-sandbox=off"});
  EXPECT_TRUE(installed.AwaitReady()) << installed.log();
}

TEST_F(ProcessTest, ServesAndEndsOnASignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess process(UPSCALED_BINARY, Flags());
    ASSERT_TRUE(process.AwaitReady()) << process.log();
    const auto stub = pb::UpscaleService::NewStub(
        grpc::CreateChannel(process.grpc_address(), grpc::InsecureChannelCredentials()));
    const Image image = test::PhotoImage({50, 30, 3, SampleType::kU8}, random_);
    EXPECT_TRUE(
        UpscaleImage(*stub, pb::UpscaleOptions(), *test::Encode(image.view(), {})).status.ok());
    process.Signal(signal);
    EXPECT_EQ(process.Wait(), 0) << process.log();
    EXPECT_THAT(process.log(), HasSubstr("stopped"));
  }
}

TEST_F(ProcessTest, ServesOnAUnixSocket) {
  const TempFolder folder;
  const std::string address = "unix:" + (folder / "upscaled.sock").string();
  const std::vector<std::string> flags =
      Flags({"--listen=" + address, "--max-connections-per-address=1"});
  {
    ServerProcess killed(UPSCALED_BINARY, flags);
    ASSERT_TRUE(killed.AwaitReady()) << killed.log();
    killed.Signal(SIGKILL);
    killed.Wait();
  }
  ASSERT_TRUE(std::filesystem::exists(folder / "upscaled.sock")) << "its place is taken anew";
  ServerProcess process(UPSCALED_BINARY, flags);
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  EXPECT_EQ(process.grpc_address(), address);
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const auto stub = pb::UpscaleService::NewStub(channel);
  const Image image = test::PhotoImage({50, 30, 3, SampleType::kU8}, random_);
  const Outcome outcome =
      UpscaleImage(*stub, pb::UpscaleOptions(), *test::Encode(image.view(), {}));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();

  // Its user counts as an address, and has all the connections of one.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto second = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own);
  EXPECT_EQ(UpscaleImage(*pb::UpscaleService::NewStub(second), pb::UpscaleOptions(), "x")
                .status.error_code(),
            grpc::StatusCode::UNAVAILABLE);

  ServerProcess other(UPSCALED_BINARY, flags);
  EXPECT_EQ(other.Wait(), kCannotStart);
  EXPECT_THAT(OneLine(other), HasSubstr("cannot listen on " + address + ": a server that runs"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.log();
  EXPECT_THAT(process.log(), HasSubstr(absl::StrCat("peer=unix:", getuid(), ":")));
  EXPECT_FALSE(std::filesystem::exists(folder / "upscaled.sock"));
}

TEST_F(ProcessTest, ASignalLetsCallsFinishAndTakesNoMore) {
  ServerProcess process(UPSCALED_BINARY, Flags({kSmallQueues, "--drain-timeout=10m"}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  BusyCall busy(process.grpc_address(), random_);
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.AwaitLog("draining"));
  // The drain has begun when the health says so.
  const auto health = grpc::health::v1::Health::NewStub(busy.channel);
  grpc::health::v1::HealthCheckResponse state;
  do {
    grpc::ClientContext context;
    ASSERT_TRUE(health->Check(&context, {}, &state).ok());
  } while (state.status() != grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  while (true) {  // the gate closes right after
    const Outcome refused = UpscaleImage(*busy.stub, pb::UpscaleOptions(), "x");
    if (ReasonOf(refused.status) == "DRAINING") {
      EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
      break;
    }
  }
  ReadToEnd(busy.context, *busy.stream, busy.outcome);
  EXPECT_TRUE(busy.outcome.status.ok()) << busy.outcome.status.error_message();
  EXPECT_TRUE(busy.outcome.summary.has_value());
  EXPECT_EQ(process.Wait(), 0) << process.log();
}

TEST_F(ProcessTest, TheDrainTimeoutCancelsTheRest) {
  ServerProcess process(UPSCALED_BINARY, Flags({kSmallQueues, "--drain-timeout=200ms"}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  BusyCall busy(process.grpc_address(), random_);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.log();
  EXPECT_THAT(process.log(), HasSubstr("--drain-timeout"));
  ReadToEnd(busy.context, *busy.stream, busy.outcome);
  EXPECT_EQ(busy.outcome.status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << busy.outcome.status.error_message();
}

TEST_F(ProcessTest, ASecondSignalEndsAtOnce) {
  ServerProcess process(UPSCALED_BINARY, Flags({kSmallQueues}));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  BusyCall busy(process.grpc_address(), random_);
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.AwaitLog("draining"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGTERM) << process.log();
}

// Waits until the process reads the FIFO `path`, and then lets it wait for its bytes.
class OpenedFifo {
 public:
  explicit OpenedFifo(const std::filesystem::path& path) {
    const auto open_it = [&] { return (fd_ = open(path.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; };
    EXPECT_TRUE(test::Comes(open_it)) << "nobody reads " << path;
  }
  ~OpenedFifo() { close(fd_); }

 private:
  int fd_ = -1;
};

TEST_F(ProcessTest, ASignalInterruptsTheStart) {
  for (const int signal : {SIGTERM, SIGINT}) {
    TempFolder folder;
    const std::string cert = folder / "cert.pem", key = folder / "key.pem";
    ASSERT_EQ(mkfifo(cert.c_str(), 0600), 0);
    WriteText(key, "no key");
    ServerProcess process(UPSCALED_BINARY, Flags({"--tls-cert=" + cert, "--tls-key=" + key}));
    const OpenedFifo stuck(cert);
    process.Signal(signal);
    EXPECT_EQ(process.Wait(), 0) << process.log();
    EXPECT_THAT(process.log(), HasSubstr("stopped"));
    EXPECT_THAT(process.log(), Not(HasSubstr("listening")));
  }
}

TEST_F(ProcessTest, ASignalInterruptsTheWarmUp) {
  TempFolder repository;
  WriteSlowModel(repository.path(), "slow");
  WriteSlowModel(repository.path(), "other");
  ServerProcess process(UPSCALED_BINARY, Flags({"--model-repository=" + repository.path().string(),
                                                "--default-model=slow", "--device=reference"}));
  ASSERT_TRUE(process.AwaitLog("listening")) << process.log();
  const auto health = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(process.grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse state;
  ASSERT_TRUE(health->Check(&context, {}, &state).ok());
  EXPECT_EQ(state.status(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.log();
  EXPECT_THAT(process.log(), HasSubstr("stopped"));
  EXPECT_THAT(process.log(), Not(HasSubstr(" ready ")));
}

TEST_F(ProcessTest, RefusesAPortThatIsTaken) {
  ServerProcess first(UPSCALED_BINARY, Flags());
  ASSERT_TRUE(first.AwaitReady()) << first.log();
  ServerProcess grpc(UPSCALED_BINARY, Flags({"--listen=" + first.grpc_address()}));
  EXPECT_EQ(grpc.Wait(), kCannotStart);
  EXPECT_THAT(OneLine(grpc), HasSubstr("cannot listen on " + first.grpc_address()));
  ServerProcess http(UPSCALED_BINARY, Flags({"--http=" + first.http_address()}));
  EXPECT_EQ(http.Wait(), kCannotStart);
  EXPECT_THAT(http.log(), HasSubstr(first.http_address()));
  ServerProcess admin(UPSCALED_BINARY, Flags({"--admin=" + first.admin_address()}));
  EXPECT_EQ(admin.Wait(), kCannotStart);
  EXPECT_THAT(OneLine(admin), HasSubstr("cannot listen on " + first.admin_address()));
}

TEST_F(ProcessTest, RefusesNonsense) {
  struct Case {
    std::vector<std::string> flags;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {{"--default-model=nope"}, {"nope", "general-2x"}},
      {{"--device=abacus"}, {"abacus", "cpu"}},
      {{"--model-repository=/nowhere"}, {"/nowhere"}},
      {{"--threads=-3"}, {"threads", "-3"}},
      {{"--thread=2"}, {"thread"}},
      {{"--memory-budget=4MiB"}, {"--memory-budget is 4194304", "--max-tile-pixels"}},
      {{"--tls-cert=/nowhere.pem", "--tls-key=/nowhere.key"}, {"/nowhere.pem"}},
  };
  for (const Case& c : cases) {
    ServerProcess process(UPSCALED_BINARY, Flags(c.flags));
    EXPECT_EQ(process.Wait(), kCannotStart) << c.flags.front();
    const std::string line = OneLine(process);
    for (const std::string& part : c.parts) EXPECT_THAT(line, HasSubstr(part)) << c.flags.front();
  }
}

TEST_F(ProcessTest, TooFewDescriptorsAreNamed) {
  for (const int descriptors : {64, 128, 191}) {
    std::vector<std::string> command = {
        "-c", absl::StrCat("ulimit -n ", descriptors, " && exec \"$0\" \"$@\""), UPSCALED_BINARY};
    for (const std::string& flag : Flags()) command.push_back(flag);
    ServerProcess server("/bin/sh", command);
    EXPECT_EQ(server.Wait(), kCannotStart);
    EXPECT_THAT(OneLine(server),
                HasSubstr(absl::StrCat("may have ", descriptors,
                                       " file descriptors, and the server needs at least 192")));
  }
}

}  // namespace
}  // namespace upscaled::server
