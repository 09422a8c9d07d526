// Text of files in Unicode. Private to engine/image.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace upscaled {

bool IsUtf8(std::string_view text);
// `text` as it is when it is UTF-8, else taken for Latin-1.
std::string ToUtf8(std::string_view text);
std::string Latin1ToUtf8(std::string_view text);
// nullopt: `text` has characters outside of Latin-1.
std::optional<std::string> Utf8ToLatin1(std::string_view text);

}  // namespace upscaled
