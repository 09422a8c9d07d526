// Fields of application/x-www-form-urlencoded: the query of a target.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled::server {

// One field of a query or of a multipart form.
struct FormField {
  std::string name;
  std::optional<std::string> value;  // none: the name stands alone, without '='

  friend bool operator==(const FormField&, const FormField&) = default;
};

// Fields of one request, in query and body together.
inline constexpr size_t kMaxFormFields = 64;

// INVALID_ARGUMENT (kInvalidOption).
absl::Status InvalidForm(std::string_view message);

// The fields in their order; empty ones ("a&&b") are left out. INVALID_ARGUMENT (kInvalidOption)
// for broken percent-encoding and for more than kMaxFormFields.
absl::StatusOr<std::vector<FormField>> ParseQuery(std::string_view query);

// `text` as a value of a query, with only unreserved characters (RFC 3986) as themselves.
std::string PercentEncode(std::string_view text);

}  // namespace upscaled::server
