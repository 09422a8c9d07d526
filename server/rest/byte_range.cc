#include "server/rest/byte_range.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

// Digits only.
std::optional<int64_t> ParseOffset(absl::string_view text) {
  int64_t value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  return digits && absl::SimpleAtoi(text, &value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<ByteRange> ParseRange(std::string_view field, int64_t bytes) {
  absl::string_view text = absl::StripAsciiWhitespace(ToAbsl(field));
  if (!absl::StartsWithIgnoreCase(text, "bytes=")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  const std::optional<int64_t> first = ParseOffset(text.substr(0, dash));
  const std::optional<int64_t> last = ParseOffset(text.substr(dash + 1));
  if (dash == 0) {  // the last so many
    if (!last.has_value()) return std::nullopt;
    return ByteRange{std::max<int64_t>(bytes - *last, 0), *last == 0 ? 0 : bytes};
  }
  if (!first.has_value() || (!last.has_value() && dash + 1 < text.size())) return std::nullopt;
  if (last.has_value() && *last < *first) return std::nullopt;
  if (*first >= bytes) return ByteRange{};
  return ByteRange{*first, last.has_value() && *last < bytes ? *last + 1 : bytes};
}

}  // namespace upscaled::server
