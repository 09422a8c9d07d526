// One image over all servers: decoded, cut, stitched and encoded here, as a server's pipeline does
// it, while the channel's servers compute the tiles. The bytes are those of one server of the same
// release.
#pragma once

#include <memory>
#include <utility>

#include "client/spread/spread_options.h"
#include "client/upscale_client.h"
#include "engine/pipeline/transcode.h"

namespace upscaled::client {

// Thread safe; every image has calls of its own.
class SpreadClient final : public Service {
 public:
  SpreadClient(std::unique_ptr<UpscaleClient> client, const SpreadOptions& options)
      : client_(std::move(client)), options_(options) {}

  // A failed call is tried again by itself: `observer` is told no retry and the source is read
  // once. INVALID_ARGUMENT if a server computes other bytes than the first asked one.
  absl::StatusOr<ImageResult> UpscaleImage(const ImageRequest& request, ImageSource& source,
                                           ImageSink& sink, ImageObserver& observer,
                                           std::stop_token stop = {}) override;
  absl::StatusOr<v1::ListModelsResponse> ListModels(std::stop_token stop = {}) override {
    return client_->ListModels(std::move(stop));
  }
  absl::StatusOr<v1::GetServerInfoResponse> ServerInfo(std::stop_token stop = {}) override {
    return client_->ServerInfo(std::move(stop));
  }
  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> CheckHealth(
      const std::string& service, std::stop_token stop = {}) override {
    return client_->CheckHealth(service, std::move(stop));
  }

 private:
  const std::unique_ptr<UpscaleClient> client_;
  const SpreadOptions options_;
};

}  // namespace upscaled::client
