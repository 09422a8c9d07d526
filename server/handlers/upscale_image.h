// Encoded images: UpscaleImage and Upscale of the contract, and their common part.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/call_context.h"
#include "server/calls/message_stream.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/image_request.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// The common part of all calls to upscale an image. Runs on the calling thread until the result is
// written. A source of moderate size is received whole first; then its result comes from the store
// or from a running computation (see server/results/README.md), and is computed otherwise. Looks at
// the image's header and checks it against the limits before anything else is done for it. Fills in
// the context's record. Errors carry the client's reason.
absl::StatusOr<upscale::v1::UpscaleSummary> UpscaleImage(const HandlerEnvironment& environment,
                                                         const CallContext& context,
                                                         ImageRequest request,
                                                         const ImageStreams& streams);

absl::Status HandleUpscaleImage(const HandlerEnvironment& environment, CallContext context,
                                MessageReader<upscale::v1::UpscaleImageRequest>& reader,
                                MessageWriter<upscale::v1::UpscaleImageResponse>& writer);

absl::Status HandleUpscale(const HandlerEnvironment& environment, CallContext context,
                           const upscale::v1::UpscaleRequest& request,
                           upscale::v1::UpscaleResponse& response);

}  // namespace upscaled::server
