// The inside of the cage: decodes one image for the server.
#pragma once

#include "absl/status/status.h"

namespace upscaled::server {

// Serves one image over the stream socket `fd` (see decode_protocol.h), locking the process before
// it looks at a byte of it. Returns when the server has closed the socket, or the error at its end,
// already told to the server.
absl::Status ServeDecoder(int fd);

}  // namespace upscaled::server
