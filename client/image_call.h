// One try of UpscaleImage. Internal to the library.
#pragma once

#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "client/upscale_client.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace upscaled::client {

// Sends the image on a thread of its own while the calling one receives the result, because
// either side may have to wait for the other. Used once.
class ImageCall {
 public:
  // `context` is fresh. All are borrowed.
  ImageCall(grpc::Channel& channel, v1::UpscaleService::Stub& stub, grpc::ClientContext& context,
            ImageSource& source, ImageSink& sink, ImageObserver& observer)
      : channel_(channel),
        stub_(stub),
        context_(context),
        source_(source),
        sink_(sink),
        observer_(observer) {}

  // Fills `result` but for its attempts.
  absl::Status Run(const ImageRequest& request, std::stop_token stop, ImageResult& result);

 private:
  using Stream =
      grpc::ClientReaderWriterInterface<v1::UpscaleImageRequest, v1::UpscaleImageResponse>;

  // OK when all is sent, when the call ended first, or when `done` says that it is over; an error
  // of the source otherwise.
  absl::Status Upload(Stream& stream, const ImageRequest& request, std::stop_token done);
  // OK at the end of the answers; an error of the sink or of the protocol otherwise.
  absl::Status Download(Stream& stream, ImageResult& result);
  absl::Status Receive(const v1::UpscaleImageResponse& response, ImageResult& result);
  absl::Status CheckComplete(const ImageResult& result) const;

  grpc::Channel& channel_;
  v1::UpscaleService::Stub& stub_;
  grpc::ClientContext& context_;
  ImageSource& source_;
  ImageSink& sink_;
  ImageObserver& observer_;
  int64_t sent_bytes_ = 0;
  int64_t received_bytes_ = 0;
  bool has_header_ = false;
  bool has_summary_ = false;
};

}  // namespace upscaled::client
