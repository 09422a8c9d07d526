// Any sequence of messages as a call: the handlers of UpscaleImage, UpscaleTiles and Upscale,
// behind the wire and before the device.
//
// The first byte chooses the method; the rest are messages, each after its length in two bytes.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/repository.h"
#include "server/base/error.h"
#include "server/handlers/result_sharing.h"
#include "server/handlers/upscale_image.h"
#include "server/handlers/upscale_tiles_handler.h"

namespace upscaled::server {
namespace {

namespace pb = ::upscale::v1;

constexpr Limits kLimits = {.max_source_pixels = 1 << 16,
                            .max_result_pixels = 1 << 18,
                            .max_source_bytes = 1 << 16,
                            .max_unary_bytes = 1 << 14,
                            .max_tile_pixels = 1 << 12,
                            .max_concurrent_requests = 4,
                            .max_queue_pixels = 1 << 17};
constexpr int64_t kMemoryBudgetBytes = 64 << 20;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Twice the size, in gray.
class GrayExecutable final : public Executable {
 public:
  explicit GrayExecutable(Network network) : network_(std::move(network)) {}
  const Network& network() const override { return network_; }
  Precision precision() const override { return Precision::kExact; }
  size_t WorkspaceBytes(Size) const override { return 0; }
  size_t WeightBytes() const override { return 0; }
  Size PreferredTile() const override { return {64, 48}; }

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override {
    return {.tile = tile,
            .image = image,
            .input = Intersect(Expand(tile, 7), {0, 0, image.width, image.height})};
  }

  const Network network_;
};

class GrayBackend final : public Backend {
 public:
  std::string_view name() const override { return "gray"; }
  std::string description() const override { return "for fuzzing"; }
  int StreamCount() const override { return 1; }
  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<GrayStream>(); }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    if (precision == Precision::kFast) return absl::UnimplementedError("exact only");
    return std::make_shared<GrayExecutable>(network);
  }

 private:
  class GrayStream final : public Stream {
   public:
    absl::Status Run(const Executable&, std::span<const TileTask> tiles) override {
      for (const TileTask& task : tiles) {
        for (int y = 0; y < task.dst.height_px(); ++y) {
          std::memset(task.dst.row(y), 128, task.dst.spec.row_bytes());
        }
      }
      return absl::OkStatus();
    }
  };
};

// All that the handlers need, once.
class Service {
 public:
  static Service& Get() {
    static Service* const service = new Service;
    return *service;
  }
  const HandlerEnvironment& environment() const { return environment_; }
  void RequireIdle() {
    // The scheduler's thread may drop the last tile, and its reservation, after the call has ended.
    Require(admission_.AwaitIdle(absl::Seconds(10)));
    const AdmissionState state = admission_.state();
    Require(state.memory_bytes == 0 && state.queue_cost == 0);
    const TileLoad load = scheduler_.load();
    Require(load.queued_tiles == 0 && load.running_tiles == 0);
  }

 private:
  const DeviceList devices_ = {std::make_shared<Device>(std::make_unique<GrayBackend>(), 0, 0)};
  ModelCatalog catalog_ = *ModelCatalog::Create(*ModelRepository::Open({UPSCALED_BUNDLED_MODELS}),
                                                {.default_model = "general-2x"}, nullptr);
  Logger logger_{LogFormat::kText, LogLevel::kError};
  Timer timer_;
  DeviceSupervisor supervisor_{devices_, Clock::Real(), timer_, logger_, {}};
  AdmissionController admission_{kLimits, kMemoryBudgetBytes, Clock::Real()};
  DeviceQuarantine quarantine_{devices_};
  DeviceChooser chooser_{quarantine_, [this] { return scheduler_.work(); }};
  TileScheduler scheduler_{quarantine_, Clock::Real()};
  HandlerEnvironment environment_{.catalog = catalog_,
                                  .admission = admission_,
                                  .chooser = chooser_,
                                  .scheduler = scheduler_,
                                  .quarantine = quarantine_,
                                  .devices = supervisor_,
                                  .sharing = &sharing_,
                                  .clock = Clock::Real(),
                                  .version = "fuzz"};
  ResultSharing sharing_{{.software = "fuzz"}};  // last: its computations use the others
};

template <typename Request>
class FakeReader final : public MessageReader<Request> {
 public:
  explicit FakeReader(std::string_view bytes) : rest_(bytes) {}

  absl::StatusOr<bool> Read(Request& request) override {
    if (rest_.size() < 2) return false;
    const size_t length = static_cast<uint8_t>(rest_[0]) | static_cast<uint8_t>(rest_[1]) << 8;
    rest_.remove_prefix(2);
    const std::string message(rest_.substr(0, length));
    rest_.remove_prefix(message.size());
    if (!request.ParseFromString(message)) {
      return MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelled, "broken message");
    }
    return true;
  }

 private:
  std::string_view rest_;
};

template <typename Response>
class FakeWriter final : public MessageWriter<Response> {
 public:
  absl::Status Reserve(size_t bytes) override {
    absl::MutexLock lock(&mutex_);
    reserved_ += bytes;
    return absl::OkStatus();
  }
  void Send(Response response, size_t reserved_bytes, std::shared_ptr<const void>) override {
    absl::MutexLock lock(&mutex_);
    Require(reserved_ >= reserved_bytes && response.ByteSizeLong() <= reserved_bytes);
    reserved_ -= reserved_bytes;
    responses_.push_back(std::move(response));
  }
  void SendIfIdle(Response response) override {
    absl::MutexLock lock(&mutex_);
    responses_.push_back(std::move(response));
  }
  const std::vector<Response>& responses() {
    absl::MutexLock lock(&mutex_);
    return responses_;
  }

 private:
  absl::Mutex mutex_;
  size_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Response> responses_ ABSL_GUARDED_BY(mutex_);
};

// The errors that a client may get: everything is its own doing here, for there is no load and the
// device works.
void CheckError(absl::StatusCode code, ErrorReason reason) {
  Require(code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kNotFound ||
          code == absl::StatusCode::kUnimplemented || code == absl::StatusCode::kCancelled);
  Require(reason != ErrorReason::kUnspecified && reason != ErrorReason::kDeviceFailure &&
          reason != ErrorReason::kInternal);
}

void CheckImageResponses(const absl::Status& status,
                         const std::vector<pb::UpscaleImageResponse>& responses) {
  int64_t bytes = 0;
  for (size_t i = 0; i < responses.size(); ++i) {
    Require(responses[i].has_header() == (i == 0));
    Require(!responses[i].has_summary() || i + 1 == responses.size());
    bytes += static_cast<int64_t>(responses[i].chunk().size());
  }
  if (!status.ok()) {
    CheckError(status.code(), ReasonOf(status));
    Require(responses.empty() || !responses.back().has_summary());
    return;
  }
  Require(responses.size() >= 3 && responses.back().has_summary());
  Require(responses.back().summary().result_bytes() == bytes);
}

void RunImage(CallContext context, std::string_view messages) {
  FakeReader<pb::UpscaleImageRequest> reader(messages);
  FakeWriter<pb::UpscaleImageResponse> writer;
  const absl::Status status =
      HandleUpscaleImage(Service::Get().environment(), context, reader, writer);
  CheckImageResponses(status, writer.responses());
}

void RunTiles(CallContext context, std::string_view messages) {
  FakeReader<pb::UpscaleTilesRequest> reader(messages);
  FakeWriter<pb::UpscaleTilesResponse> writer;
  const absl::Status status =
      HandleUpscaleTiles(Service::Get().environment(), context, reader, writer);
  if (!status.ok()) CheckError(status.code(), ReasonOf(status));
  for (const pb::UpscaleTilesResponse& response : writer.responses()) {
    Require(response.has_tile() || response.has_error() || response.has_header());
  }
}

void RunUnary(CallContext context, std::string_view message) {
  pb::UpscaleRequest request;
  if (!request.ParseFromString(std::string(message))) return;
  pb::UpscaleResponse response;
  const absl::Status status =
      HandleUpscale(Service::Get().environment(), context, request, response);
  if (!status.ok()) return CheckError(status.code(), ReasonOf(status));
  Require(response.summary().result_bytes() == static_cast<int64_t>(response.image().size()));
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  upscaled::Cancellation cancellation;
  RequestRecord record;
  AdmissionController::Reservation reservation;
  const Payer payer;
  const CallContext context{cancellation, record, absl::Now(), reservation, payer};
  switch (data[0] % 3) {
    case 0:
      RunImage(context, rest);
      break;
    case 1:
      RunTiles(context, rest);
      break;
    default:
      RunUnary(context, rest);
  }
  reservation.Release();  // as the call does once its answer has left
  Service::Get().RequireIdle();
  return 0;
}
