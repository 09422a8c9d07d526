// Entity tags (RFC 9110, section 8.8.3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace upscaled::server {

// A strong tag of this name. The name has neither quotes nor control characters.
std::string QuotedTag(std::string_view name);

// The names of the tags of If-None-Match, strong and weak, at most 16; "*" is a name, too.
std::vector<std::string> ParseTags(std::string_view field);

// OK for a request whose If-Match names the tag of `name`, and for one without that field.
// Otherwise FAILED_PRECONDITION: the answer is 412. Weak tags match none (RFC 9110, 13.1.1). An
// empty `name` is not known, and only "*" matches it.
absl::Status CheckIfMatch(const HttpRequest& request, const std::string& name);

}  // namespace upscaled::server
