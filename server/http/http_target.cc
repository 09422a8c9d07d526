#include "server/http/http_target.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

std::optional<int> HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return std::nullopt;
}

absl::StatusOr<std::string> DecodePath(std::string_view path) {
  std::string decoded;
  decoded.reserve(path.size());
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded.push_back(path[i]);
      continue;
    }
    const std::optional<int> high = i + 2 < path.size() ? HexDigit(path[i + 1]) : std::nullopt;
    const std::optional<int> low = high ? HexDigit(path[i + 2]) : std::nullopt;
    if (!low) {
      return absl::InvalidArgumentError("a '%' of the path is not followed by two hex digits");
    }
    const char byte = static_cast<char>(*high * 16 + *low);
    if (byte == '/' || byte == '\0') {
      return absl::InvalidArgumentError("the path holds an encoded slash or NUL");
    }
    decoded.push_back(byte);
    i += 2;
  }
  return decoded;
}

// "http://host/path" without "http://host"; `target` itself when it is of another form.
std::string_view WithoutOrigin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(ToAbsl(target), ToAbsl(scheme))) continue;
    const size_t end = target.find_first_of("/?", scheme.size());
    return end == std::string_view::npos ? "/" : target.substr(end);
  }
  return target;
}

}  // namespace

absl::StatusOr<HttpTarget> ParseHttpTarget(std::string_view target) {
  if (target == "*") return HttpTarget{.path = "*"};
  const std::string_view local = WithoutOrigin(target);
  if (local.find('#') != std::string_view::npos) {
    return absl::InvalidArgumentError("the target holds a fragment");
  }
  const size_t question = local.find('?');
  HttpTarget parsed;
  parsed.sent_path = local.substr(0, question);
  ASSIGN_OR_RETURN(parsed.path, DecodePath(parsed.sent_path));
  if (question != std::string_view::npos) parsed.query = local.substr(question + 1);
  if (parsed.path.empty() && local != target) parsed.path.push_back('/');  // "http://host?query"
  if (!parsed.path.starts_with('/')) {
    return absl::InvalidArgumentError("the target is neither a path nor a URL of http");
  }
  return parsed;
}

}  // namespace upscaled::server
