#include "server/fetch/address_kind.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/base/check.h"

namespace upscaled::server {
namespace {

constexpr size_t kIpv4Bytes = 4, kIpv6Bytes = 16;

// Addresses whose first 32 bits begin with the first `bits` of `prefix`.
struct Block {
  uint32_t prefix;
  int bits;
};

constexpr Block kPrivateIpv4[] = {
    {0x0A000000, 8},   // 10.0.0.0/8
    {0x64400000, 10},  // 100.64.0.0/10
    {0x7F000000, 8},   // 127.0.0.0/8
    {0xAC100000, 12},  // 172.16.0.0/12
    {0xC0A80000, 16},  // 192.168.0.0/16
};
constexpr Block kSpecialIpv4[] = {
    {0x00000000, 8},   // 0.0.0.0/8, this network
    {0x646464C8, 32},  // 100.100.100.200, a cloud's metadata
    {0xA83F8110, 32},  // 168.63.129.16, a cloud's host
    {0xA9FE0000, 16},  // 169.254.0.0/16, link-local
    {0xC0000000, 24},  // 192.0.0.0/24, protocols
    {0xC0000200, 24},  // 192.0.2.0/24, documentation
    {0xC0586300, 24},  // 192.88.99.0/24, 6to4 relays
    {0xC6120000, 15},  // 198.18.0.0/15, benchmarks
    {0xC6336400, 24},  // 198.51.100.0/24, documentation
    {0xCB007100, 24},  // 203.0.113.0/24, documentation
    {0xE0000000, 4},   // 224.0.0.0/4, multicast
    {0xF0000000, 4},   // 240.0.0.0/4, reserved, broadcast
};
constexpr Block kUniqueLocalIpv6[] = {{0xFC000000, 7}};    // fc00::/7
constexpr Block kGlobalUnicastIpv6[] = {{0x20000000, 3}};  // 2000::/3, all that is given out
constexpr Block kSpecialIpv6[] = {
    // of 2000::/3
    {0x20010000, 23},  // 2001::/23, protocols, Teredo
    {0x20010DB8, 32},  // 2001:db8::/32, documentation
    {0x20020000, 16},  // 2002::/16, 6to4: IPv4 inside
    {0x3FFF0000, 20},  // 3fff::/20, documentation
};

bool IsIn(std::span<const Block> blocks, uint32_t first_bits) {
  return std::ranges::any_of(blocks, [&](const Block& block) {
    return (first_bits ^ block.prefix) >> (32 - block.bits) == 0;
  });
}

bool IsLoopbackIpv6(std::span<const uint8_t> address) {
  constexpr std::array<uint8_t, kIpv6Bytes> kLoopback = {0, 0, 0, 0, 0, 0, 0, 0,
                                                         0, 0, 0, 0, 0, 0, 0, 1};
  return std::ranges::equal(address, kLoopback);
}

}  // namespace

std::string_view AddressKindName(AddressKind kind) {
  constexpr std::string_view kNames[] = {"public", "private", "special"};
  return kNames[static_cast<size_t>(kind)];
}

AddressKind KindOfAddress(std::span<const uint8_t> address) {
  const bool ipv4 = address.size() == kIpv4Bytes;
  UPSCALED_CHECK(ipv4 || address.size() == kIpv6Bytes);
  uint32_t first_bits = 0;
  for (const uint8_t byte : address.first(kIpv4Bytes)) first_bits = first_bits << 8 | byte;
  if (ipv4) {
    if (IsIn(kSpecialIpv4, first_bits)) return AddressKind::kSpecial;
    return IsIn(kPrivateIpv4, first_bits) ? AddressKind::kPrivate : AddressKind::kPublic;
  }
  if (IsIn(kUniqueLocalIpv6, first_bits) || IsLoopbackIpv6(address)) return AddressKind::kPrivate;
  const bool is_public = IsIn(kGlobalUnicastIpv6, first_bits) && !IsIn(kSpecialIpv6, first_bits);
  return is_public ? AddressKind::kPublic : AddressKind::kSpecial;
}

std::optional<std::span<const uint8_t>> IpBytes(const sockaddr& address) {
  const auto bytes = [](const auto& ip) {
    return std::span(reinterpret_cast<const uint8_t*>(&ip), sizeof(ip));
  };
  if (address.sa_family == AF_INET) {
    return bytes(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.sa_family == AF_INET6) {
    return bytes(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return std::nullopt;
}

std::string AddressText(const sockaddr& address) {
  const auto bytes = IpBytes(address);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (bytes.has_value()) {
    inet_ntop(address.sa_family, bytes->data(), text.data(), text.size());
  }
  return text.data();
}

bool MayConnectTo(const sockaddr& address, bool may_be_private) {
  const auto bytes = IpBytes(address);
  if (!bytes.has_value()) return false;
  const AddressKind kind = KindOfAddress(*bytes);
  return kind == AddressKind::kPublic || (kind == AddressKind::kPrivate && may_be_private);
}

}  // namespace upscaled::server
