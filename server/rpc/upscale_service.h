// upscale.v1.UpscaleService: which handler serves which method, and how large its messages are.
#pragma once

#include <cstddef>

#include "server/handlers/handler_environment.h"
#include "server/rpc/method.h"

namespace upscaled::server {

// The largest message that a client may send to any method.
size_t MaxMessageBytes(const Limits& limits);

// `handlers` outlives the table. `output_queue_bytes` is UpscaleImage's queue for one client.
void AddUpscaleMethods(const HandlerEnvironment& handlers, size_t output_queue_bytes,
                       MethodTable& methods);

}  // namespace upscaled::server
