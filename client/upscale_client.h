// A client of the service over gRPC: all calls, with retries where they are safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/image_io.h"
#include "client/retry.h"
#include "client/service.h"
#include "client/tracer.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/channel.h"
#include "upscale/v1/admin.grpc.pb.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::client {

struct ClientOptions {
  ChannelOptions channel;
  RetryPolicy retry;
  // For one operation, its retries and waits included.
  absl::Duration timeout = absl::InfiniteDuration();
  // Sent with every call, unless empty; without TLS everyone on the path can read it.
  std::string api_key;
  // Sent with every call, unless empty: its trace, as W3C's traceparent.
  std::string traceparent;
  // Takes a span of each operation; null: no spans.
  std::shared_ptr<Tracer> tracer;
  // Sent with every call, unless empty: "interactive", or "background" for work that may wait.
  std::string priority;
};

// Thread safe. Errors carry what DetailsOf returns; CANCELLED when `stop` was requested.
class UpscaleClient final : public Service {
 public:
  // Does not connect yet. Errors as MakeChannel's.
  static absl::StatusOr<std::unique_ptr<UpscaleClient>> Create(const ClientOptions& options);

  // Over a channel of the caller's making, and a clock that must outlive the client.
  UpscaleClient(std::shared_ptr<grpc::Channel> channel, const RetryPolicy& retry,
                absl::Duration timeout = absl::InfiniteDuration(),
                RetryClock& clock = RetryClock::Real(), std::string api_key = "",
                std::string traceparent = "", std::shared_ptr<Tracer> tracer = nullptr,
                std::string priority = "");

  // Connects now rather than with the first call; UNAVAILABLE when `patience` runs out.
  absl::Status Connect(absl::Duration patience);

  absl::StatusOr<ImageResult> UpscaleImage(const ImageRequest& request, ImageSource& source,
                                           ImageSink& sink, ImageObserver& observer,
                                           std::stop_token stop = {}) override;
  absl::StatusOr<ImageResult> UpscaleImage(const ImageRequest& request, ImageSource& source,
                                           ImageSink& sink);

  // How tiles of calls with these options are computed. Errors as the call's; UNIMPLEMENTED, too,
  // by a server that does not know parts of images.
  absl::StatusOr<v1::UpscaleTilesHeader> DescribeTiles(v1::UpscaleTilesStart start,
                                                       std::stop_token stop = {});

  // Sends raw tiles and passes each answer to `on_answer` as it arrives, TileErrors included. Ids
  // must differ. Resends tiles refused by a full server and, after a broken call, tiles without an
  // answer. If the last try is refused too, passes on its error. `deadline` applies if it is
  // sooner than the client's own timeout. DATA_LOSS: the server ended the call without answering
  // all tiles.
  absl::Status UpscaleTiles(const v1::UpscaleTilesStart& start, std::span<const v1::Tile> tiles,
                            absl::FunctionRef<void(const v1::UpscaleTilesResponse&)> on_answer,
                            std::stop_token stop = {},
                            absl::Time deadline = absl::InfiniteFuture());

  // One message each way, for images up to the server's max_unary_bytes.
  absl::StatusOr<v1::UpscaleResponse> Upscale(const v1::UpscaleRequest& request,
                                              std::stop_token stop = {});

  absl::StatusOr<v1::ListModelsResponse> ListModels(std::stop_token stop = {}) override;
  // At a server's --admin address. Asks once. FAILED_PRECONDITION: a model is broken, and the
  // server keeps its models.
  absl::StatusOr<v1::ReloadModelsResponse> ReloadModels(std::stop_token stop = {});
  // Adds a model, at a server's --admin address. Sends the bytes of `sources`, the model's file and
  // its .bin if it has one, once; their totals must be known.
  absl::StatusOr<v1::AddModelResponse> AddModel(
      const v1::AddModelStart& start, std::span<const std::unique_ptr<ImageSource>> sources,
      std::stop_token stop = {});
  // At a server's --admin address. Asks once. An error of `on_piece` ends the call.
  absl::Status ExportModel(const v1::ExportModelRequest& request,
                           absl::FunctionRef<absl::Status(const v1::ExportModelResponse&)> on_piece,
                           std::stop_token stop = {});
  // At a server's --admin address. Asks once. OUT_OF_RANGE: more than one answer holds.
  absl::StatusOr<v1::GetUsageResponse> GetUsage(const v1::GetUsageRequest& request,
                                                std::stop_token stop = {});
  absl::StatusOr<v1::Model> GetModel(const std::string& name, std::stop_token stop = {});
  absl::StatusOr<v1::GetServerInfoResponse> ServerInfo(std::stop_token stop = {}) override;

  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> CheckHealth(
      const std::string& service, std::stop_token stop = {}) override;

 private:
  OperationSpan NewSpan(const char* operation) const {
    return OperationSpan(tracer_.get(), operation, "grpc", traceparent_);
  }
  void SetUp(grpc::ClientContext& context, const OperationSpan& span, absl::Time deadline) const;
  template <typename Response, typename Call>
  absl::StatusOr<Response> UnaryCall(const char* operation, const RetryPolicy& policy,
                                     std::stop_token stop, Call call);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::UpscaleService::Stub> stub_;
  const RetryPolicy retry_;
  const absl::Duration timeout_;
  const std::string api_key_, traceparent_;
  const std::shared_ptr<Tracer> tracer_;
  const std::string priority_;
  RetryClock& clock_;
};

}  // namespace upscaled::client
