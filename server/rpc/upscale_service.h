// upscale.v1.UpscaleService: which handler serves which method.
#pragma once

#include <cstddef>

#include "server/handlers/handler_environment.h"
#include "server/rpc/call.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/unary_call.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {

// The largest message that a client may send.
size_t MaxMessageBytes(const Limits& limits);

class UpscaleService {
 public:
  // Both environments outlive it. `output_queue_bytes` is UpscaleImage's queue for one client.
  UpscaleService(const HandlerEnvironment& handlers, CallEnvironment& calls,
                 size_t output_queue_bytes);

  grpc::Service& service() { return service_; }

  // Upper bound of the memory of one call's messages.
  size_t max_call_bytes() const;

  // Makes `pending_calls` of each method ready to be called on `queue`.
  void Listen(grpc::ServerCompletionQueue& queue, int pending_calls);

 private:
  CallEnvironment& calls_;
  upscale::v1::UpscaleService::AsyncService service_;
  StreamMethod<upscale::v1::UpscaleImageRequest, upscale::v1::UpscaleImageResponse> upscale_image_;
  StreamMethod<upscale::v1::UpscaleTilesRequest, upscale::v1::UpscaleTilesResponse> upscale_tiles_;
  UnaryMethod<upscale::v1::UpscaleRequest, upscale::v1::UpscaleResponse> upscale_;
  UnaryMethod<upscale::v1::ListModelsRequest, upscale::v1::ListModelsResponse> list_models_;
  UnaryMethod<upscale::v1::ReloadModelsRequest, upscale::v1::ReloadModelsResponse> reload_models_;
  UnaryMethod<upscale::v1::GetModelRequest, upscale::v1::GetModelResponse> get_model_;
  UnaryMethod<upscale::v1::GetServerInfoRequest, upscale::v1::GetServerInfoResponse>
      get_server_info_;
};

}  // namespace upscaled::server
