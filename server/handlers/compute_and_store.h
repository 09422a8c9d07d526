// Computes an image, and stores its result under its name.
#pragma once

#include "absl/status/statusor.h"
#include "server/calls/call_context.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/image_request.h"
#include "server/results/flight.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// Runs on the calling thread until the result is written, also into the store. Reads, in the latter
// case, what a flight does not hold any more; `flight` is null if the request is not shared.
//
// The summary has the result's name, if it has one. A request with a key has named its result in
// the header. Without a key the source is hashed while it is read, and the result gets its name
// from the hash, if the request gives the source's size or digest: otherwise the rest of a source
// no decoder asks for might never come. Ends as CheckClaimedDigest, once the result is written, and
// then stores nothing. Other errors as ComputeImage.
absl::StatusOr<upscale::v1::UpscaleSummary> ComputeAndStore(const HandlerEnvironment& environment,
                                                            const CallContext& context,
                                                            const ImageRequest& request,
                                                            const ImageStreams& streams,
                                                            Flight* flight = nullptr);

}  // namespace upscaled::server
