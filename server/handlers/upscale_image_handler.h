// UpscaleImage and Upscale: encoded images.
#pragma once

#include "absl/status/status.h"
#include "server/calls/call_context.h"
#include "server/calls/message_stream.h"
#include "server/handlers/handler_environment.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

absl::Status HandleUpscaleImage(const HandlerEnvironment& environment, CallContext context,
                                MessageReader<upscale::v1::UpscaleImageRequest>& reader,
                                MessageWriter<upscale::v1::UpscaleImageResponse>& writer);

absl::Status HandleUpscale(const HandlerEnvironment& environment, CallContext context,
                           const upscale::v1::UpscaleRequest& request,
                           upscale::v1::UpscaleResponse& response);

}  // namespace upscaled::server
