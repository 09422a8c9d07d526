// Clients behind proxies, as the proxies name them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/address_prefix.h"
#include "server/base/peer_address.h"

namespace upscaled::server {

// Immutable.
class TrustedProxies {
 public:
  TrustedProxies() = default;  // trusts nothing
  explicit TrustedProxies(std::vector<AddressPrefix> prefixes) : prefixes_(std::move(prefixes)) {}

  // The host (as PeerAddress has it) of the client behind `peer`'s request with these fields, ""
  // for an absent one. It is the last address of no trusted proxy, read from the end of
  // X-Forwarded-For, or of Forwarded (RFC 7239) without that. A client's own entries stand before
  // it and count for nothing. For an untrusted peer: its own host.
  std::string ClientOf(const PeerAddress& peer, std::string_view x_forwarded_for,
                       std::string_view forwarded) const;
  bool Trusts(const PeerAddress& peer) const;

 private:
  bool Trusts(const IpAddress& address) const;

  std::vector<AddressPrefix> prefixes_;
};

}  // namespace upscaled::server
