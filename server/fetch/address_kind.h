// The purpose of an IP address, by IANA's registries of special-purpose addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace upscaled::server {

enum class AddressKind : uint8_t {
  kPublic,   // of the internet at large
  kPrivate,  // of this machine or its site: loopback, RFC 1918, RFC 4193, carriers' NAT (RFC 6598)
  kSpecial,  // everything else: link-local (and the clouds' metadata), multicast, unspecified,
             // documentation, IPv4 in IPv6, reserved or unassigned
};
std::string_view AddressKindName(AddressKind kind);  // "public", "private", "special"

// `address` has 4 bytes (IPv4) or 16 (IPv6), in network order.
AddressKind KindOfAddress(std::span<const uint8_t> address);

// The bytes of an IPv4 or IPv6 address, borrowed; nullopt for other families.
std::optional<std::span<const uint8_t>> IpBytes(const sockaddr& address);
// "10.0.0.7", "::1"; "" for other families.
std::string AddressText(const sockaddr& address);
// Whether a connection may lead to `address`: a public one, or a private one if `may_be_private`.
bool MayConnectTo(const sockaddr& address, bool may_be_private);

}  // namespace upscaled::server
