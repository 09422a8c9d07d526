// A server in this process with a test's answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::client {

namespace v1 = ::upscale::v1;

// A gRPC error with ErrorInfo of our domain and, unless negative, RetryInfo. `field`: "": it has no
// such entry.
grpc::Status ServerError(grpc::StatusCode code, const std::string& message,
                         const std::string& reason, absl::Duration retry_delay = -absl::Seconds(1),
                         const std::string& field = "");

// The fake result of an encoded image: its bytes, all changed.
std::string FakeResult(const std::string& image);

using ImageStream = grpc::ServerReaderWriter<v1::UpscaleImageResponse, v1::UpscaleImageRequest>;
using TilesStream = grpc::ServerReaderWriter<v1::UpscaleTilesResponse, v1::UpscaleTilesRequest>;

// One UpscaleImage call, for handlers to put together.
class FakeImageCall {
 public:
  FakeImageCall(int number, grpc::ServerContext& context, ImageStream& stream)
      : number(number), context(context), stream_(stream) {}

  // 1 for the first call of the server.
  const int number;
  grpc::ServerContext& context;
  v1::UpscaleImageStart start;
  std::string image;
  std::vector<std::string> header_warnings, summary_warnings;  // to be sent

  // Reads start and image.
  void ReceiveAll();
  // The name of the result: the source's digest, where the client has told it.
  std::string Etag() const;
  // Reads until at least `bytes` of the image are there.
  void Receive(size_t bytes);
  void SendHeader();
  void SendProgress(int done);
  // Sends FakeResult(image), or its first half only.
  void SendResult(bool whole = true);
  void SendSummary();
  // Blocks until the client is gone.
  void WaitForCancellation();

  static constexpr int kTiles = 4;

 private:
  void Write(const v1::UpscaleImageResponse& response) { stream_.Write(response); }

  ImageStream& stream_;
  int64_t sent_bytes_ = 0;
};

// Listens on 127.0.0.1 until destroyed. Answers ordinarily until told otherwise. Thread safe.
class FakeServer final : public v1::UpscaleService::Service {
 public:
  using ImageHandler = std::function<grpc::Status(FakeImageCall&)>;
  using TileHandler = std::function<grpc::Status(int call, const v1::Tile& tile)>;
  using UnaryHandler = std::function<grpc::Status(int call)>;
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  static constexpr int kTileRetryDelaySeconds = 9;

  explicit FakeServer(
      std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials());
  ~FakeServer() override;

  // "127.0.0.1:PORT".
  const std::string& endpoint() const { return endpoint_; }
  // All calls so far.
  int calls() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The keys of the calls so far, "" for each without one.
  std::vector<std::string> authorizations() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Their priorities.
  std::vector<std::string> priorities() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The start messages read of image calls so far.
  std::vector<v1::UpscaleImageStart> starts() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The ids of the tiles so far.
  std::vector<uint64_t> tile_ids() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The ordinary answer: images with "bad" at their beginning are refused, others answered with
  // FakeResult.
  static grpc::Status Serve(FakeImageCall& call);

  void OnImage(ImageHandler handler) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called for each tile before it is answered with its own pixels. RESOURCE_EXHAUSTED turns the
  // tile away for kTileRetryDelaySeconds, another error ends the call.
  void OnTile(TileHandler handler) ABSL_LOCKS_EXCLUDED(mutex_);
  // The handler returns the status of a call, by the call's number.
  void OnUnary(UnaryHandler handler) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetHealth(ServingStatus health) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class HealthService;

  grpc::Status UpscaleImage(grpc::ServerContext* context, ImageStream* stream) override;
  grpc::Status UpscaleTiles(grpc::ServerContext* context, TilesStream* stream) override;
  grpc::Status Upscale(grpc::ServerContext* context, const v1::UpscaleRequest* request,
                       v1::UpscaleResponse* response) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::GetModelResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;
  int CountCall(const grpc::ServerContext& context) ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status UnaryStatus(const grpc::ServerContext& context);
  grpc::Status TileStatus(int call, const v1::Tile& tile) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> authorizations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> priorities_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::UpscaleImageStart> starts_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> tile_ids_ ABSL_GUARDED_BY(mutex_);
  ImageHandler on_image_ ABSL_GUARDED_BY(mutex_) = Serve;
  TileHandler on_tile_ ABSL_GUARDED_BY(mutex_);
  UnaryHandler on_unary_ ABSL_GUARDED_BY(mutex_);
  ServingStatus health_ ABSL_GUARDED_BY(mutex_) = grpc::health::v1::HealthCheckResponse::SERVING;
  std::unique_ptr<HealthService> health_service_;
  std::unique_ptr<grpc::Server> server_;
  std::string endpoint_;
};

}  // namespace upscaled::client
