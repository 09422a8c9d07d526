#include "server/http/own_host.h"

#include <arpa/inet.h>

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/http/http_fault.h"

namespace upscaled::server {
namespace {

constexpr int kMisdirectedRequest = 421;

bool IsAddress(int family, std::string_view text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(family, std::string(text).c_str(), bytes) == 1;
}

}  // namespace

bool IsOwnHost(std::string_view host, std::string_view own) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end != host.npos && IsAddress(AF_INET6, host.substr(1, end - 1));
  }
  const std::string_view name = host.substr(0, host.find(':'));
  return !name.empty() && (name.find('.') == name.npos || IsAddress(AF_INET, name) ||
                           absl::EndsWithIgnoreCase(ToAbsl(name), ".localhost") ||
                           absl::EqualsIgnoreCase(ToAbsl(name), ToAbsl(own)));
}

HttpGuard OwnHostGuard(std::string own) {
  return [own = std::move(own)](const HttpRoute&,
                                const HttpRequest& request) -> std::optional<HttpFault> {
    // Browsers always name the host; HTTP/1.0 need not.
    const std::optional<std::string_view> host = request.FindField("Host");
    if (!host.has_value() || IsOwnHost(*host, own)) return std::nullopt;
    return HttpFault{
        kMisdirectedRequest,
        MakeError(absl::StatusCode::kPermissionDenied, ErrorReason::kPermissionDenied,
                  absl::StrCat("the host ", Quoted(*host),
                               " is not this machine; name it by its address or localhost"))};
  };
}

}  // namespace upscaled::server
