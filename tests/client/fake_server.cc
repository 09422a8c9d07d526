#include "tests/client/fake_server.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/support/await.h"

namespace upscaled::client {
namespace {

constexpr int kSourceWidthPx = 30;
constexpr int kSourceHeightPx = 20;
constexpr size_t kChunkBytes = 1000;  // Small, for many of them.

v1::Model FakeModel(const std::string& name, bool is_default) {
  v1::Model model;
  model.set_name(name);
  model.set_family("fake");
  model.set_style("art");
  model.set_description("Changes every byte.");
  model.set_licence("MIT");
  model.add_scales(2);
  model.add_noise_levels(-1);
  model.add_noise_levels(1);
  model.add_precisions(v1::PRECISION_EXACT);
  model.set_is_default(is_default);
  return model;
}

}  // namespace

grpc::Status ServerError(grpc::StatusCode code, const std::string& message,
                         const std::string& reason, absl::Duration retry_delay,
                         const std::string& field) {
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("upscale.v1");
  (*info.mutable_metadata())["limit"] = "7";
  if (!field.empty()) (*info.mutable_metadata())["field"] = field;
  details.add_details()->PackFrom(info);
  if (retry_delay >= absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    const int64_t nanos = absl::ToInt64Nanoseconds(retry_delay);
    retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int>(nanos % 1'000'000'000));
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

std::string FakeResult(const std::string& image) {
  std::string result = image;
  for (char& byte : result) byte = static_cast<char>(byte ^ 0x5a);
  return result;
}

void FakeImageCall::ReceiveAll() { Receive(std::string::npos); }

void FakeImageCall::Receive(size_t bytes) {
  v1::UpscaleImageRequest request;
  while (image.size() < bytes && stream_.Read(&request)) {
    if (request.has_start()) start = request.start();
    image.append(request.chunk());
  }
}

std::string FakeImageCall::Etag() const { return absl::BytesToHexString(start.source_sha256()); }

void FakeImageCall::SendHeader() {
  v1::UpscaleImageResponse response;
  v1::UpscaleImageHeader& header = *response.mutable_header();
  header.set_request_id("fake-request");
  header.set_source_width_px(kSourceWidthPx);
  header.set_source_height_px(kSourceHeightPx);
  header.set_result_width_px(2 * kSourceWidthPx);
  header.set_result_height_px(2 * kSourceHeightPx);
  header.set_format(start.options().format());
  header.set_bits_per_sample(8);
  header.set_channels(3);
  header.set_model("fake");
  header.set_tiles(kTiles);
  header.set_etag(Etag());
  header.mutable_warnings()->Assign(header_warnings.begin(), header_warnings.end());
  Write(response);
}

void FakeImageCall::SendProgress(int done) {
  v1::UpscaleImageResponse response;
  response.mutable_progress()->set_tiles_done(done);
  response.mutable_progress()->set_tiles(kTiles);
  Write(response);
}

void FakeImageCall::SendResult(bool whole) {
  std::string result = FakeResult(image);
  if (!whole) result.resize(result.size() / 2);
  v1::UpscaleImageResponse response;
  for (size_t at = 0; at < result.size(); at += kChunkBytes) {
    response.set_chunk(result.substr(at, kChunkBytes));
    sent_bytes_ += static_cast<int64_t>(response.chunk().size());
    Write(response);
  }
}

void FakeImageCall::SendSummary() {
  v1::UpscaleImageResponse response;
  v1::UpscaleSummary& summary = *response.mutable_summary();
  summary.set_result_bytes(sent_bytes_);
  summary.set_tiles(kTiles);
  summary.set_device("fake:0");
  summary.set_etag(Etag());
  summary.mutable_warnings()->Assign(summary_warnings.begin(), summary_warnings.end());
  summary.mutable_timings()->mutable_total()->set_nanos(250'000'000);
  Write(response);
}

void FakeImageCall::WaitForCancellation() {
  // Ends with the call, regardless of the bytes sent before.
  v1::UpscaleImageRequest request;
  while (stream_.Read(&request)) continue;
  test::Await([&] { return context.IsCancelled(); });
}

class FakeServer::HealthService final : public grpc::health::v1::Health::Service {
 public:
  explicit HealthService(const FakeServer& server) : server_(server) {}

  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    if (!request->service().empty() && request->service() != "upscale.v1.UpscaleService") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
    }
    absl::MutexLock lock(&server_.mutex_);
    response->set_status(server_.health_);
    return grpc::Status::OK;
  }

 private:
  const FakeServer& server_;
};

FakeServer::FakeServer(std::shared_ptr<grpc::ServerCredentials> credentials)
    : health_service_(std::make_unique<HealthService>(*this)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port);
  builder.RegisterService(this);
  builder.RegisterService(health_service_.get());
  server_ = builder.BuildAndStart();
  endpoint_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

int FakeServer::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

std::vector<std::string> FakeServer::authorizations() const {
  absl::MutexLock lock(&mutex_);
  return authorizations_;
}

std::vector<std::string> FakeServer::priorities() const {
  absl::MutexLock lock(&mutex_);
  return priorities_;
}

std::vector<v1::UpscaleImageStart> FakeServer::starts() const {
  absl::MutexLock lock(&mutex_);
  return starts_;
}

std::vector<uint64_t> FakeServer::tile_ids() const {
  absl::MutexLock lock(&mutex_);
  return tile_ids_;
}

void FakeServer::OnImage(ImageHandler handler) {
  absl::MutexLock lock(&mutex_);
  on_image_ = std::move(handler);
}

void FakeServer::OnTile(TileHandler handler) {
  absl::MutexLock lock(&mutex_);
  on_tile_ = std::move(handler);
}

void FakeServer::OnUnary(UnaryHandler handler) {
  absl::MutexLock lock(&mutex_);
  on_unary_ = std::move(handler);
}

void FakeServer::SetHealth(ServingStatus health) {
  absl::MutexLock lock(&mutex_);
  health_ = health;
}

int FakeServer::CountCall(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto value_of = [&metadata](const char* name) {
    const auto entry = metadata.find(name);
    return entry == metadata.end() ? "" : std::string(entry->second.data(), entry->second.size());
  };
  absl::MutexLock lock(&mutex_);
  authorizations_.push_back(value_of("authorization"));
  priorities_.push_back(value_of("upscale-priority"));
  return ++calls_;
}

grpc::Status FakeServer::Serve(FakeImageCall& call) {
  call.ReceiveAll();
  if (absl::StartsWith(call.image, "bad")) {
    return ServerError(grpc::StatusCode::INVALID_ARGUMENT, "not an image", "INVALID_IMAGE");
  }
  call.SendHeader();
  if (call.start.name_only()) {
    call.SendSummary();
    return grpc::Status::OK;
  }
  for (int i = 1; i <= FakeImageCall::kTiles; ++i) call.SendProgress(i);
  call.SendResult();
  call.SendSummary();
  return grpc::Status::OK;
}

grpc::Status FakeServer::UpscaleImage(grpc::ServerContext* context, ImageStream* stream) {
  FakeImageCall call(CountCall(*context), *context, *stream);
  ImageHandler handler;
  {
    absl::MutexLock lock(&mutex_);
    handler = on_image_;
  }
  const grpc::Status status = handler(call);
  absl::MutexLock lock(&mutex_);
  starts_.push_back(call.start);
  return status;
}

grpc::Status FakeServer::UpscaleTiles(grpc::ServerContext* context, TilesStream* stream) {
  const int call = CountCall(*context);
  v1::UpscaleTilesRequest request;
  v1::UpscaleTilesResponse response;
  while (stream->Read(&request)) {
    if (!request.has_tile()) continue;
    const grpc::Status status = TileStatus(call, request.tile());
    const bool full = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (!status.ok() && !full) return status;
    response.set_id(request.tile().id());
    if (full) {
      v1::TileError& error = *response.mutable_error();
      error.set_code(status.error_code());
      error.set_message(status.error_message());
      error.set_reason(v1::ERROR_REASON_OVERLOADED);
      error.mutable_retry_delay()->set_seconds(kTileRetryDelaySeconds);
    } else if (request.tile().pixels().empty()) {
      response.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error()->set_message("no pixels");
    } else {
      *response.mutable_tile() = request.tile();
    }
    stream->Write(response);
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::TileStatus(int call, const v1::Tile& tile) {
  TileHandler handler;
  {
    absl::MutexLock lock(&mutex_);
    tile_ids_.push_back(tile.id());
    handler = on_tile_;
  }
  return handler ? handler(call, tile) : grpc::Status::OK;
}

grpc::Status FakeServer::UnaryStatus(const grpc::ServerContext& context) {
  const int call = CountCall(context);
  UnaryHandler handler;
  {
    absl::MutexLock lock(&mutex_);
    handler = on_unary_;
  }
  return handler ? handler(call) : grpc::Status::OK;
}

grpc::Status FakeServer::Upscale(grpc::ServerContext* context, const v1::UpscaleRequest* request,
                                 v1::UpscaleResponse* response) {
  response->set_image(FakeResult(request->image()));
  return UnaryStatus(*context);
}

grpc::Status FakeServer::ListModels(grpc::ServerContext* context, const v1::ListModelsRequest*,
                                    v1::ListModelsResponse* response) {
  *response->add_models() = FakeModel("fake", true);
  *response->add_models() = FakeModel("other", false);
  v1::RefusedModel& refused = *response->add_refused();
  refused.set_name("4x-broken");
  refused.set_reason("4x-broken.pth: is no zip file");
  return UnaryStatus(*context);
}

grpc::Status FakeServer::GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                                  v1::GetModelResponse* response) {
  *response->mutable_model() = FakeModel(request->name(), true);
  return UnaryStatus(*context);
}

grpc::Status FakeServer::GetServerInfo(grpc::ServerContext* context,
                                       const v1::GetServerInfoRequest*,
                                       v1::GetServerInfoResponse* response) {
  response->set_version("0.0.fake");
  v1::Device& device = *response->add_devices();
  device.set_name("fake:0");
  device.set_description("no device");
  device.set_streams(1);
  v1::KernelVerdict& kernel = *device.add_kernels();
  kernel.set_kernel("conv3x3_ws");
  kernel.set_verdict("slow");
  kernel.set_reason("the shipped kernels are faster");
  kernel.set_times_as_fast(0.5);
  response->mutable_limits()->set_max_source_pixels(123456789);
  response->add_input_formats(v1::IMAGE_FORMAT_PNG);
  response->add_output_formats(v1::IMAGE_FORMAT_PNG);
  response->add_output_formats(v1::IMAGE_FORMAT_WEBP);
  return UnaryStatus(*context);
}

}  // namespace upscaled::client
