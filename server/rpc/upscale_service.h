// upscale.v1.UpscaleService: which handler serves which method.
#pragma once

#include <cstddef>

#include "server/rpc/call.h"
#include "server/rpc/handler_environment.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/unary_call.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {

// Bytes that a streaming call reads ahead.
inline constexpr size_t kInputQueueBytes = size_t{1} << 20;

// Bytes that UpscaleTiles may queue for a client where UpscaleImage may queue `image_bytes`.
size_t TilesOutputQueueBytes(size_t image_bytes);

class UpscaleService {
 public:
  // Both environments outlive it. `output_queue_bytes`: what UpscaleImage may queue for a client.
  UpscaleService(const HandlerEnvironment& handlers, CallEnvironment& calls,
                 size_t output_queue_bytes);

  grpc::Service& service() { return service_; }

  // Makes `pending_calls` of each method ready to be called on `queue`.
  void Listen(grpc::ServerCompletionQueue& queue, int pending_calls);

 private:
  CallEnvironment& calls_;
  upscale::v1::UpscaleService::AsyncService service_;
  StreamMethod<upscale::v1::UpscaleImageRequest, upscale::v1::UpscaleImageResponse> upscale_image_;
  StreamMethod<upscale::v1::UpscaleTilesRequest, upscale::v1::UpscaleTilesResponse> upscale_tiles_;
  UnaryMethod<upscale::v1::UpscaleRequest, upscale::v1::UpscaleResponse> upscale_;
  UnaryMethod<upscale::v1::ListModelsRequest, upscale::v1::ListModelsResponse> list_models_;
  UnaryMethod<upscale::v1::GetModelRequest, upscale::v1::GetModelResponse> get_model_;
  UnaryMethod<upscale::v1::GetServerInfoRequest, upscale::v1::GetServerInfoResponse>
      get_server_info_;
};

}  // namespace upscaled::server
