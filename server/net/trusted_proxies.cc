#include "server/net/trusted_proxies.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"
#include "server/net/peer_address.h"

namespace upscaled::server {
namespace {

// The address of "1.2.3.4", "1.2.3.4:80", "2001:db8::1" or "[2001:db8::1]:80".
std::optional<IpAddress> AddressOf(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "[")) {
    text = text.substr(0, text.find(']'));
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    text = text.substr(0, text.find(':'));
  }
  return ParseIpAddress({text.data(), text.size()});
}

// The value of "for" in an element of Forwarded, without its quotes; "": it has none.
absl::string_view ForOf(absl::string_view element) {
  for (absl::string_view pair : absl::StrSplit(element, ';')) {
    pair = absl::StripAsciiWhitespace(pair);
    if (!absl::StartsWithIgnoreCase(pair, "for=")) continue;
    pair.remove_prefix(4);
    absl::ConsumePrefix(&pair, "\"");
    absl::ConsumeSuffix(&pair, "\"");
    return pair;
  }
  return "";
}

std::string HostOf(const IpAddress& address) {
  sockaddr_in6 socket_address = {};
  socket_address.sin6_family = AF_INET6;
  std::memcpy(&socket_address.sin6_addr, address.data(), address.size());
  return ToPeerAddress(reinterpret_cast<const sockaddr&>(socket_address)).host;
}

}  // namespace

bool TrustedProxies::Trusts(const IpAddress& address) const {
  return std::ranges::any_of(prefixes_,
                             [&](const AddressPrefix& prefix) { return prefix.Contains(address); });
}

bool TrustedProxies::Trusts(const PeerAddress& peer) const {
  const absl::string_view name = peer.name;
  if (absl::StartsWith(name, "unix:")) {
    return std::ranges::any_of(prefixes_, [](const auto& prefix) { return prefix.unix_sockets; });
  }
  const size_t scheme = name.find(':');
  if (scheme == absl::string_view::npos) return false;
  const std::optional<IpAddress> address = AddressOf(name.substr(scheme + 1));
  return address.has_value() && Trusts(*address);
}

std::string TrustedProxies::ClientOf(const PeerAddress& peer, std::string_view x_forwarded_for,
                                     std::string_view forwarded) const {
  std::string host = peer.host;
  if (prefixes_.empty() || !Trusts(peer)) return host;
  const bool plain = !x_forwarded_for.empty();
  std::vector<absl::string_view> hops =
      absl::StrSplit(ToAbsl(plain ? x_forwarded_for : forwarded), ',');
  for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) {
    const std::optional<IpAddress> address = AddressOf(plain ? *hop : ForOf(*hop));
    if (!address.has_value()) break;  // "unknown", a name: whoever wrote it counts
    host = HostOf(*address);
    if (!Trusts(*address)) break;
  }
  return host;
}

}  // namespace upscaled::server
