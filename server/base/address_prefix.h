// IP addresses and their networks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled::server {

// As IPv6 has it; an IPv4 address is mapped (::ffff:a.b.c.d).
using IpAddress = std::array<uint8_t, 16>;

// nullopt for any other text than an address without a port.
std::optional<IpAddress> ParseIpAddress(std::string_view text);

struct AddressPrefix {
  IpAddress address = {};
  int bits = 128;             // of `address` that count
  bool unix_sockets = false;  // any client on a Unix socket instead

  bool Contains(const IpAddress& other) const;
};

// "10.0.0.0/8", "2001:db8::/32", "127.0.0.1" or "unix". INVALID_ARGUMENT for other texts.
absl::StatusOr<AddressPrefix> ParseAddressPrefix(const std::string& text);

}  // namespace upscaled::server
