// The real server with its decoders in processes of their own.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using test::ServerProcess;

// The processes named upscaled-decode below `parent`.
std::vector<pid_t> WorkersOf(pid_t parent) {
  std::vector<pid_t> workers;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string number, name, state;
    pid_t owner = 0;
    if (stat >> number >> name >> state >> owner && owner == parent &&
        name == "(upscaled-decode)") {
      workers.push_back(pid);
    }
  }
  return workers;
}

class SandboxTest : public ::testing::Test {
 protected:
  Outcome Upscale(const ServerProcess& process, const std::string& file) {
    const auto stub = pb::UpscaleService::NewStub(
        grpc::CreateChannel(process.grpc_address(), grpc::InsecureChannelCredentials()));
    return UpscaleImage(*stub, pb::UpscaleOptions(), file);
  }

  std::vector<std::string> Flags(const std::string& mode) {
    return {"--decode-sandbox=" + mode, "--model-repository=engine/model/bundled"};
  }

  std::mt19937 random_ = test::FreshRandom();
};

TEST_F(SandboxTest, GivesTheSameResultsAndErrors) {
  ServerProcess inside(UPSCALED_BINARY, Flags("on")), outside(UPSCALED_BINARY, Flags("off"));
  ASSERT_TRUE(inside.AwaitReady()) << inside.log();
  ASSERT_TRUE(outside.AwaitReady()) << outside.log();
  EXPECT_FALSE(WorkersOf(inside.pid()).empty());
  EXPECT_TRUE(WorkersOf(outside.pid()).empty());
  const Image image = test::PhotoImage({90, 70, 3, SampleType::kU8}, random_);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const std::string file = *test::Encode(image.view(), {.format = format});
    const Outcome caged = Upscale(inside, file);
    EXPECT_TRUE(caged.status.ok()) << caged.status.error_message();
    EXPECT_EQ(caged.image, Upscale(outside, file).image);
    const std::string half = file.substr(0, file.size() / 2);
    const grpc::Status broken = Upscale(inside, half).status;
    EXPECT_EQ(ReasonOf(broken), "INVALID_IMAGE");
    EXPECT_EQ(broken.error_message(), Upscale(outside, half).status.error_message());
  }
}

TEST_F(SandboxTest, HeicIsReadInsideOnly) {
  if (!CanDecode(ImageFormat::kHeic)) GTEST_SKIP() << "this build reads no HEIC";
  std::ifstream stream(UPSCALED_CODEC_SEEDS "/heic-422.heic", std::ios::binary);
  const std::string file(std::istreambuf_iterator<char>(stream), {});
  for (const bool inside : {true, false}) {
    ServerProcess process(UPSCALED_BINARY, Flags(inside ? "on" : "off"));
    ASSERT_TRUE(process.AwaitReady()) << process.log();
    const Outcome outcome = Upscale(process, file);
    EXPECT_EQ(outcome.status.ok(), inside) << outcome.status.error_message();
    pb::GetServerInfoResponse info;
    grpc::ClientContext context;
    const auto stub = pb::UpscaleService::NewStub(
        grpc::CreateChannel(process.grpc_address(), grpc::InsecureChannelCredentials()));
    ASSERT_TRUE(stub->GetServerInfo(&context, {}, &info).ok());
    EXPECT_EQ(std::ranges::count(info.input_formats(), pb::IMAGE_FORMAT_HEIC), inside ? 1 : 0);
    if (inside) {
      EXPECT_EQ(outcome.image.substr(0, 4), "\x89PNG");
      continue;
    }
    EXPECT_EQ(ReasonOf(outcome.status), "INVALID_IMAGE");
    EXPECT_NE(outcome.status.error_message().find("HEIC is read only where images are decoded in "
                                                  "a sandbox"),
              std::string::npos)
        << outcome.status.error_message();
  }
}

TEST_F(SandboxTest, AKilledZygoteIsReplaced) {
  ServerProcess process(UPSCALED_BINARY, Flags("on"));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  const Image image = test::PhotoImage({20, 20, 3, SampleType::kU8}, random_);
  const std::string file = *test::Encode(image.view(), {});
  for (int round = 0; round < 3; ++round) {
    const std::vector<pid_t> workers = WorkersOf(process.pid());
    EXPECT_FALSE(workers.empty());
    for (const pid_t worker : workers) kill(worker, SIGKILL);
    const grpc::Status status = Upscale(process, file).status;
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

TEST_F(SandboxTest, WorkersEndWithTheServer) {
  ServerProcess process(UPSCALED_BINARY, Flags("on"));
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  const std::vector<pid_t> workers = WorkersOf(process.pid());
  ASSERT_FALSE(workers.empty());
  process.Signal(SIGKILL);
  process.Wait();
  for (const pid_t worker : workers) {
    const auto exe = std::filesystem::path("/proc") / std::to_string(worker) / "exe";
    test::Await([&] { return kill(worker, 0) != 0 || !std::filesystem::exists(exe); });
  }
}

}  // namespace
}  // namespace upscaled::server
