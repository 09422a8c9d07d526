// A whole server in this process, and a client over a real channel.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "engine/image/codec.h"
#include "engine/image/image.h"
#include "google/rpc/error_details.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/base/endpoint.h"
#include "server/config/config.h"
#include "server/lifecycle/server.h"
#include "server/telemetry/logger.h"
#include "tests/support/gated_device.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {

namespace pb = ::upscale::v1;

// Loopback, any port, the bundled models, the cpu with two threads, small tiles' worth of memory.
ServerConfig TestConfig();

// The side of tiles in calls with several for a small image.
inline constexpr int kTilePx = 64;
// The tiles computed by a device before the first call.
inline constexpr int kWarmUpTiles = 1;

class LogLines;

// Its devices stand behind open gates. "cpu:1" is one more cpu, bit-exact with it. Expects, when it
// goes, no rest of any call.
class TestServer {
 public:
  enum class Start { kWarm, kCold };  // a cold one waits for WarmUp
  explicit TestServer(const ServerConfig& config = TestConfig(), Start start = Start::kWarm);
  ~TestServer();

  // One channel to it, shared by all stubs.
  pb::UpscaleService::Stub& stub() { return *stub_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  // One to its admin port.
  std::shared_ptr<grpc::Channel> NewAdminChannel(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials =
          grpc::InsecureChannelCredentials()) const;
  // A channel with a connection of its own.
  std::shared_ptr<grpc::Channel> NewChannel(
      const grpc::ChannelArguments& arguments = {},
      const std::shared_ptr<grpc::ChannelCredentials>& credentials =
          grpc::InsecureChannelCredentials()) const;

  Server& server() { return *server_; }
  test::Gate& gate(const std::string& device = "cpu") { return gates_.at(device); }
  // All log lines so far.
  std::string log() const;

  // Waits until no call, tile or reservation is left.
  void AwaitIdle();

 private:
  const Endpoint endpoint_;
  std::map<std::string, test::Gate> gates_;  // by device, complete after the start
  std::shared_ptr<LogLines> log_;
  std::unique_ptr<Logger> logger_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::UpscaleService::Stub> stub_;
};

// The answer to one UpscaleImage or Upscale call.
struct Outcome {
  grpc::Status status;
  std::multimap<std::string, std::string> trailers;
  std::optional<pb::UpscaleImageHeader> header;
  std::vector<pb::UpscaleProgress> progress;
  std::vector<size_t> chunk_bytes;
  std::string image;
  std::optional<pb::UpscaleSummary> summary;
};

using ClientStream = grpc::ClientReaderWriter<pb::UpscaleImageRequest, pb::UpscaleImageResponse>;

pb::UpscaleImageRequest StartMessage(const pb::UpscaleOptions& options,
                                     bool report_progress = false);
pb::UpscaleImageRequest ChunkMessage(std::string_view bytes);

// Sends start and image in chunks, reads the whole answer, finishes.
Outcome UpscaleImage(pb::UpscaleService::Stub& stub, const pb::UpscaleImageStart& start,
                     std::string_view image, absl::Duration timeout = absl::InfiniteDuration(),
                     size_t chunk_bytes = 64 << 10);
Outcome UpscaleImage(pb::UpscaleService::Stub& stub, const pb::UpscaleOptions& options,
                     std::string_view image, absl::Duration timeout = absl::InfiniteDuration());
// Reads until the end of the stream into `outcome`, and its status.
void ReadToEnd(grpc::ClientContext& context, ClientStream& stream, Outcome& outcome);

// The details of an error.
std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const grpc::Status& status);
std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status);
std::string ReasonOf(const grpc::Status& status);

// Code, reason and a part of the message.
::testing::AssertionResult IsError(const grpc::Status& status, grpc::StatusCode code,
                                   const std::string& reason, const std::string& message_part);

}  // namespace upscaled::server
