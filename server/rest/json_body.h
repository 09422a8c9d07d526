// A request of POST /v1/upscale as JSON: {"image": "<base64>", "scale": 2}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rest/form.h"

namespace upscaled::server {

struct JsonBody {
  std::optional<std::string> image;  // decoded
  std::vector<FormField> fields;     // options, in order; a null is left out
};

// Reads one flat object. Only its texts are built: no document takes more memory than a few times
// its bytes. INVALID_ARGUMENT (kInvalidOption) for any other document, for a nested value, and for
// an image ("image" or "file") given twice or neither in base64 text nor as a data: URL.
absl::StatusOr<JsonBody> ParseJsonBody(std::string_view text);

// Whether `content_type` is JSON, regardless of its parameters.
bool IsJson(std::string_view content_type);

// Whether `url` is a data: URL (RFC 2397).
bool IsDataUrl(std::string_view url);
// The bytes of one in base64. INVALID_ARGUMENT (kInvalidOption) for others.
absl::StatusOr<std::string> DecodeDataUrl(std::string_view url);

}  // namespace upscaled::server
