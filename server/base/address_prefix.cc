#include "server/base/address_prefix.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace upscaled::server {
namespace {

constexpr int kMappedBits = 96;  // in front of an IPv4 address
constexpr int kMaxBits = 128;

}  // namespace

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  const std::string address(text);
  IpAddress bytes = {};
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return bytes;
  bytes = {};
  bytes[10] = bytes[11] = 0xFF;
  if (inet_pton(AF_INET, address.c_str(), &bytes[12]) == 1) return bytes;
  return std::nullopt;
}

bool AddressPrefix::Contains(const IpAddress& other) const {
  if (unix_sockets) return false;
  const auto whole = static_cast<size_t>(bits / 8);
  if (!std::equal(address.begin(), address.begin() + static_cast<ptrdiff_t>(whole),
                  other.begin())) {
    return false;
  }
  const int rest = bits % 8;
  return rest == 0 || ((address[whole] ^ other[whole]) >> (8 - rest)) == 0;
}

absl::StatusOr<AddressPrefix> ParseAddressPrefix(const std::string& text) {
  if (text == "unix") return AddressPrefix{.unix_sockets = true};
  const size_t slash = text.find('/');
  const std::string host = text.substr(0, slash);
  const std::optional<IpAddress> address = ParseIpAddress(host);
  const bool ipv4 = host.find(':') == std::string::npos;
  int bits = ipv4 ? kMaxBits - kMappedBits : kMaxBits;
  const int max_bits = bits;
  const bool counted =
      slash == std::string::npos || absl::SimpleAtoi(text.substr(slash + 1), &bits);
  if (!address.has_value() || !counted || bits < 0 || bits > max_bits) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be an address or a network like 10.0.0.0/8 or 2001:db8::/32, or unix"));
  }
  return AddressPrefix{.address = *address, .bits = ipv4 ? bits + kMappedBits : bits};
}

}  // namespace upscaled::server
