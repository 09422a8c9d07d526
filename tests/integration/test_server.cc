#include "tests/integration/test_server.h"

#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include <spdlog/sinks/base_sink.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "tests/support/await.h"

namespace upscaled::server {

// Keeps the log.
class LogLines final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    text_.append(line.data(), line.size());
  }
  void flush_() override {}

 private:
  std::string text_;
};

ServerConfig TestConfig() {
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http = "127.0.0.1:0";
  config.admin = "127.0.0.1:0";
  config.model_repositories = {"engine/model/bundled"};
  config.devices = {"cpu"};
  config.threads = 2;
  config.memory_budget_bytes = config.weight_memory_bytes = int64_t{1} << 30;
  config.decode_sandbox = SandboxMode::kOff;  // its worker lies beside the server's program alone
  // All clients of a test have one address.
  config.limits.max_requests_per_address = std::numeric_limits<int>::max();
  return config;
}

TestServer::TestServer(const ServerConfig& config, Start start)
    : endpoint_(*ParseEndpoint(config.listen)), log_(std::make_shared<LogLines>()) {
  logger_ = std::make_unique<Logger>(LogFormat::kText, LogLevel::kDebug, log_);
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(
      config, *logger_,
      [this](std::string_view device,
             const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Backend>> {
        auto backend = CreateBackend(device.substr(0, device.find(':')), options);
        if (!backend.ok()) return backend.status();
        return std::make_unique<test::GatedDevice>(std::string(device), *std::move(backend),
                                                   gates_[std::string(device)]);
      });
  EXPECT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  if (start == Start::kWarm) {
    const absl::Status warm = server_->WarmUp();
    EXPECT_TRUE(warm.ok()) << warm;
  }
  channel_ = NewChannel();
  stub_ = pb::UpscaleService::NewStub(channel_);
}

TestServer::~TestServer() {
  for (auto& [device, gate] : gates_) gate.Open();
  if (server_ != nullptr) AwaitIdle();
}

std::string TestServer::log() const { return log_->text(); }

std::shared_ptr<grpc::Channel> TestServer::NewChannel(
    const grpc::ChannelArguments& arguments,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
  grpc::ChannelArguments own = arguments;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  own.SetMaxReceiveMessageSize(-1);
  const std::string address = endpoint_.is_unix()
                                  ? FormatEndpoint(endpoint_)
                                  : absl::StrCat("127.0.0.1:", server_->grpc_port());
  return grpc::CreateCustomChannel(address, credentials, own);
}

std::shared_ptr<grpc::Channel> TestServer::NewAdminChannel(
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
  return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->admin_port()), credentials);
}

void TestServer::AwaitIdle() {
  AdmissionState state;
  TileLoad load;
  const auto idle = [&] {
    state = server_->admission_state();
    load = server_->tile_load();
    // Reservations may outlast their call's slot until its answer has left.
    const bool ended = state.requests == 0 && load.queued_tiles == 0 && load.running_tiles == 0;
    return ended && state.memory_bytes == 0 && state.queue_cost == 0;
  };
  EXPECT_TRUE(test::Comes(idle)) << "still " << state.requests << " calls, " << load.queued_tiles
                                 << " + " << load.running_tiles << " tiles, " << state.memory_bytes
                                 << " bytes and " << state.queue_cost << " multiply-adds";
}

pb::UpscaleImageRequest StartMessage(const pb::UpscaleOptions& options, bool report_progress) {
  pb::UpscaleImageRequest request;
  *request.mutable_start()->mutable_options() = options;
  request.mutable_start()->set_report_progress(report_progress);
  return request;
}

pb::UpscaleImageRequest ChunkMessage(std::string_view bytes) {
  pb::UpscaleImageRequest request;
  request.set_chunk(std::string(bytes));
  return request;
}

void ReadToEnd(grpc::ClientContext& context, ClientStream& stream, Outcome& outcome) {
  pb::UpscaleImageResponse response;
  while (stream.Read(&response)) {
    EXPECT_FALSE(outcome.summary.has_value()) << "the summary must be the last message";
    EXPECT_TRUE(response.has_header() || outcome.header.has_value())
        << "the header must be the first message";
    switch (response.payload_case()) {
      case pb::UpscaleImageResponse::kHeader:
        EXPECT_FALSE(outcome.header.has_value());
        outcome.header = response.header();
        break;
      case pb::UpscaleImageResponse::kProgress:
        outcome.progress.push_back(response.progress());
        break;
      case pb::UpscaleImageResponse::kChunk:
        outcome.chunk_bytes.push_back(response.chunk().size());
        outcome.image += response.chunk();
        break;
      case pb::UpscaleImageResponse::kSummary:
        outcome.summary = response.summary();
        break;
      default:
        ADD_FAILURE() << "an empty message";
    }
  }
  outcome.status = stream.Finish();
  for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
    outcome.trailers.emplace(std::string(key.data(), key.size()),
                             std::string(value.data(), value.size()));
  }
}

Outcome UpscaleImage(pb::UpscaleService::Stub& stub, const pb::UpscaleImageStart& start,
                     std::string_view image, absl::Duration timeout, size_t chunk_bytes) {
  grpc::ClientContext context;
  if (timeout != absl::InfiniteDuration()) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }
  const auto stream = stub.UpscaleImage(&context);
  Outcome outcome;
  std::thread reader([&] { ReadToEnd(context, *stream, outcome); });
  pb::UpscaleImageRequest request;
  *request.mutable_start() = start;
  bool open = stream->Write(request);
  while (open && !image.empty()) {
    open = stream->Write(ChunkMessage(image.substr(0, chunk_bytes)));
    image.remove_prefix(std::min(image.size(), chunk_bytes));
  }
  if (open) stream->WritesDone();
  reader.join();
  return outcome;
}

Outcome UpscaleImage(pb::UpscaleService::Stub& stub, const pb::UpscaleOptions& options,
                     std::string_view image, absl::Duration timeout) {
  return UpscaleImage(stub, StartMessage(options).start(), image, timeout);
}

namespace {

template <typename Detail>
std::optional<Detail> DetailOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& any : details.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

}  // namespace

std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const grpc::Status& status) {
  return DetailOf<google::rpc::ErrorInfo>(status);
}

std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status) {
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  if (!retry.has_value()) return std::nullopt;
  return absl::Seconds(retry->retry_delay().seconds()) +
         absl::Nanoseconds(retry->retry_delay().nanos());
}

std::string ReasonOf(const grpc::Status& status) {
  const auto info = ErrorInfoOf(status);
  return info.has_value() ? info->reason() : "";
}

::testing::AssertionResult IsError(const grpc::Status& status, grpc::StatusCode code,
                                   const std::string& reason, const std::string& message_part) {
  if (status.error_code() == code && ReasonOf(status) == reason &&
      absl::StrContains(status.error_message(), message_part)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "code " << status.error_code() << ", reason " << ReasonOf(status) << ", message \""
         << status.error_message() << "\"; expected code " << code << ", reason " << reason
         << ", message with \"" << message_part << "\"";
}

}  // namespace upscaled::server
