// The digest of an image as it was sent.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "client/image_io.h"

namespace upscaled::client {

// The SHA-256 of all bytes, 32 of them; `source` is at its first byte before and after. CANCELLED
// when `stop` was requested. Other errors are the source's.
absl::StatusOr<std::string> SourceDigest(ImageSource& source, std::stop_token stop);

}  // namespace upscaled::client
