// The first run of the default model.
#pragma once

#include "absl/status/status.h"
#include "server/rpc/handler_environment.h"

namespace upscaled::server {

// Loads the default model's own scale, reserves the device's scratch memory for it, and upscales a
// small picture.
absl::Status RunWarmUp(const HandlerEnvironment& environment);

}  // namespace upscaled::server
