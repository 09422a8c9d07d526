// JSON without guesses, and the fields of its objects. All errors are INVALID_ARGUMENT, and name
// the fault, but not the entry: "has no \"name\"".
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/identity/principal.h"

namespace upscaled::server {

// Objects with a field twice are errors: parsers keep one or the other. None repeats more of the
// text than a field's name.
absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text);

// An error of this kind.
absl::Status Wrong(std::string_view what);
// `text` in quotes for an error: escaped, and not all of a long one.
std::string Shown(std::string_view text);

// `entry` is an object in all of these. A field of another name than `fields` is an error.
absl::Status OnlyHas(const nlohmann::json& entry, std::initializer_list<std::string_view> fields);

// Fit for a log line and a label: 1 to 64 letters, digits and . _ @ -, and no key. The error names
// `field`.
absl::Status CheckName(const std::string& name, const char* field = "name");

absl::StatusOr<std::string> TextOf(const nlohmann::json& entry, const char* field);
// As CheckName.
absl::StatusOr<std::string> NameOf(const nlohmann::json& entry, const char* field);
// The roles in "roles", a list of their names.
absl::StatusOr<RoleSet> RolesOf(const nlohmann::json& entry);
// A time as RFC 3339 has it; `otherwise` if the field is missing.
absl::StatusOr<absl::Time> TimeOf(const nlohmann::json& entry, const char* field,
                                  absl::Time otherwise);

}  // namespace upscaled::server
