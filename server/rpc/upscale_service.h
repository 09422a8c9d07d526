// upscale.v1.UpscaleService: the handler of each method, and the size of its messages.
#pragma once

#include <cstddef>

#include "server/handlers/handler_environment.h"
#include "server/rpc/method.h"

namespace upscaled::server {

// The largest message from a client to any method.
size_t MaxMessageBytes(const Limits& limits);

// `handlers` outlives the table. `output_queue_bytes` is UpscaleImage's queue for one client.
void AddUpscaleMethods(const HandlerEnvironment& handlers, size_t output_queue_bytes,
                       MethodTable& methods);

}  // namespace upscaled::server
