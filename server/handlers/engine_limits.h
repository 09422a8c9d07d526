// Limits and errors of the engine, as clients and operators know them.
#pragma once

#include "absl/status/status.h"
#include "engine/image/codec.h"
#include "server/handlers/handler_environment.h"
#include "server/options/request_options.h"

namespace upscaled::server {

// Returns the decoders' limits for a request of these options. Their errors carry the flags' names.
// `environment` must outlive them.
DecodeLimits ToDecodeLimits(const HandlerEnvironment& environment, const RequestOptions& options);

// A status of the engine with a client's reason, and its code if it differs: the image is to blame
// when a codec rejects it, and the limits of codecs do not depend on the load.
absl::Status ExplainEngineError(const absl::Status& status);

}  // namespace upscaled::server
