// Limits and errors of the engine, as clients and operators know them.
#pragma once

#include "absl/status/status.h"
#include "engine/image/codec.h"
#include "server/admission/limits.h"
#include "server/handlers/request_options.h"

namespace upscaled::server {

// The decoders' limits, whose errors carry the flags' names, with the options of a request.
// `limits` must outlive them.
DecodeLimits ToDecodeLimits(const Limits& limits, const RequestOptions& options, bool is_caged);

// A status of the engine with the reason, and where it differs the code, that it means to a client:
// the image is to blame when a codec rejects it, and the limits of codecs do not depend on the
// load.
absl::Status ExplainEngineError(const absl::Status& status);

}  // namespace upscaled::server
