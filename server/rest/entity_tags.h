// Entity tags (RFC 9110, section 8.8.3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace upscaled::server {

// A strong tag of that name, which has neither quotes nor control characters.
std::string QuotedTag(std::string_view name);

// The names of the tags of If-None-Match or If-Range, strong and weak, at most 16; "*" is a name,
// too.
std::vector<std::string> ParseTags(std::string_view field);

}  // namespace upscaled::server
