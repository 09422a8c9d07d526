// The interface of both ways to a server: gRPC (upscale_client.h) and HTTP (http_client.h).
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/image_io.h"
#include "grpc/health/v1/health.pb.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

namespace v1 = ::upscale::v1;

// Hears how an image gets on. Called from two threads at once: OnSent from the sending one, the
// others from the calling one.
class ImageObserver {
 public:
  virtual ~ImageObserver() = default;
  // Bytes of the image sent so far.
  virtual void OnSent(int64_t /*bytes*/) {}
  virtual void OnHeader(const v1::UpscaleImageHeader& /*header*/) {}
  virtual void OnProgress(const v1::UpscaleProgress& /*progress*/) {}
  // A try failed; after `wait` the image is sent again from its start.
  virtual void OnRetry(const absl::Status& /*error*/, absl::Duration /*wait*/) {}
};

struct ImageRequest {
  v1::UpscaleOptions options;
  // An image for the server to fetch, instead of the source's. The source then has no bytes. Over
  // HTTP only; empty: none.
  std::string source_url;
  // The SHA-256 of the image, 32 bytes, for a server with a possible result; empty: unknown. Over
  // gRPC only, as the next one.
  std::string source_sha256;
  // Asks only for ImageResult::header.etag(): nothing is computed and the sink gets nothing.
  bool name_only = false;
  // A UUID for logs; empty: one is made.
  std::string request_id;
};

struct ImageResult {
  v1::UpscaleImageHeader header;
  v1::UpscaleSummary summary;
  int64_t source_bytes = 0;
  // Tries it took, the good one included.
  int attempts = 0;
};

// Thread safe. Errors have the details of DetailsOf; CANCELLED when `stop` was requested.
class Service {
 public:
  virtual ~Service() = default;

  // Streams an image of any size from `source` through the server to `sink`. Tried again only while
  // both can start over. DATA_LOSS when the result lacks bytes or its summary. After an error
  // the sink holds an incomplete image.
  virtual absl::StatusOr<ImageResult> UpscaleImage(const ImageRequest& request, ImageSource& source,
                                                   ImageSink& sink, ImageObserver& observer,
                                                   std::stop_token stop = {}) = 0;
  virtual absl::StatusOr<v1::ListModelsResponse> ListModels(std::stop_token stop = {}) = 0;
  virtual absl::StatusOr<v1::GetServerInfoResponse> ServerInfo(std::stop_token stop = {}) = 0;
  // Asks once, without retries. `service`: its name in gRPC; "": the whole server. NOT_FOUND for a
  // model unknown to the server.
  virtual absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> CheckHealth(
      const std::string& service, std::stop_token stop = {}) = 0;
};

}  // namespace upscaled::client
