// UpscaleTiles: raw pixels in, raw pixels out, in order of completion.
#pragma once

#include "absl/status/status.h"
#include "server/calls/call_context.h"
#include "server/calls/message_stream.h"
#include "server/handlers/handler_environment.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

absl::Status HandleUpscaleTiles(const HandlerEnvironment& environment, CallContext context,
                                MessageReader<upscale::v1::UpscaleTilesRequest>& reader,
                                MessageWriter<upscale::v1::UpscaleTilesResponse>& writer);

}  // namespace upscaled::server
