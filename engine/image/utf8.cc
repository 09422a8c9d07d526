#include "engine/image/utf8.h"

#include <cstdint>

namespace upscaled {
namespace {

// Bytes of the first character of `text`; 0: none begins there.
size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead > 0xF4 || bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) return 0;
  return bytes;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string ToUtf8(std::string_view text) {
  return IsUtf8(text) ? std::string(text) : Latin1ToUtf8(text);
}

std::string Latin1ToUtf8(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<uint8_t>(c);
    if (code >= 0x80) result.push_back(static_cast<char>(0xC0 | code >> 6));
    result.push_back(code < 0x80 ? c : static_cast<char>(0x80 | (code & 0x3F)));
  }
  return result;
}

std::optional<std::string> Utf8ToLatin1(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const auto lead = static_cast<uint8_t>(text[0]);
    if (bytes == 0 || bytes > 2 || (bytes == 2 && lead > 0xC3)) return std::nullopt;
    result.push_back(bytes == 1 ? text[0] : static_cast<char>((lead & 3) << 6 | (text[1] & 0x3F)));
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace upscaled
