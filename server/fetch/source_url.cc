#include "server/fetch/source_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxUrlBytes = 4096;
constexpr size_t kMaxHostBytes = 253;  // of a name in the DNS
constexpr size_t kMaxPortDigits = 5;
constexpr int kHttpPort = 80, kHttpsPort = 443, kMaxPort = 65535;
// No honest path is encoded more often.
constexpr int kMaxEncodings = 4;

absl::Status Must(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("must ", what));
}

int DefaultPort(bool tls) { return tls ? kHttpsPort : kHttpPort; }

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// The characters of RFC 3986, and brackets, which many URLs leave unencoded.
absl::Status CheckCharacters(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c <= ' ' || c > '~' || std::string_view("\"<>\\^`{|}").find(c) != std::string_view::npos) {
      return Must("have other characters than those of URLs percent-encoded (hosts: in punycode)");
    }
    if (c == '%' && (i + 2 >= text.size() || !IsHexDigit(text[i + 1]) || !IsHexDigit(text[i + 2])))
      return Must("have two hex digits behind each '%'");
  }
  return absl::OkStatus();
}

// Keeps a '%' without two hex digits behind it.
std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && IsHexDigit(text[i + 1]) &&
        IsHexDigit(text[i + 2])) {
      decoded += absl::HexStringToBytes(ToAbsl(text.substr(i + 1, 2)));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// Some servers take a backslash for a slash, and what follows a ';' for no part of a name.
bool HasDotSegment(std::string_view path) {
  for (const absl::string_view segment : absl::StrSplit(ToAbsl(path), absl::ByAnyChar("/\\"))) {
    const absl::string_view name = segment.substr(0, segment.find(';'));
    if (name == "." || name == "..") return true;
  }
  return false;
}

bool HasControlCharacter(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

// A server may decode a path any number of times, so it must be harmless after each.
absl::Status CheckPath(std::string path) {
  for (int i = 0; i <= kMaxEncodings; ++i) {
    if (HasDotSegment(path)) return Must("have no \".\" or \"..\" in its path");
    if (HasControlCharacter(path)) return Must("have no control characters in its path");
    std::string decoded = PercentDecode(path);
    if (decoded == path) return absl::OkStatus();
    path = std::move(decoded);
  }
  return Must(absl::StrCat("be percent-encoded ", kMaxEncodings, " times at most"));
}

absl::StatusOr<std::string> ParseIpv6(std::string_view text) {
  std::array<uint8_t, 16> address;
  std::array<char, INET6_ADDRSTRLEN> shortest;
  if (inet_pton(AF_INET6, std::string(text).c_str(), address.data()) != 1) {
    return Must("have an IPv6 address between the brackets");
  }
  return std::string(inet_ntop(AF_INET6, address.data(), shortest.data(), shortest.size()));
}

// Whether readers of URLs take a host with this last label for an IPv4 address (WHATWG, "ends in a
// number").
bool IsNumber(absl::string_view label) {
  if (absl::StartsWithIgnoreCase(label, "0x")) {
    label.remove_prefix(2);
    return std::ranges::all_of(label, IsHexDigit);
  }
  return std::ranges::all_of(label, IsDigit);
}

absl::StatusOr<std::string> ParseName(std::string_view text) {
  if (text.empty()) return Must("name a host behind the scheme");
  if (text.size() > kMaxHostBytes) {
    return Must(absl::StrCat("have a host of ", kMaxHostBytes, " bytes at most"));
  }
  const std::string host = absl::AsciiStrToLower(ToAbsl(text));
  for (const char c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') {
      return Must("have a host of letters, digits, '-' and '.'");
    }
  }
  const std::vector<absl::string_view> labels = absl::StrSplit(host, '.');
  if (std::ranges::count(labels, "") > 0) {
    return Must("have a host without a dot at its begin or end, or beside another one");
  }
  in_addr address;
  if (IsNumber(labels.back()) && inet_pton(AF_INET, host.c_str(), &address) != 1) {
    return Must("write an IPv4 address as four decimal numbers");
  }
  return host;
}

absl::StatusOr<int> ParsePort(std::string_view digits) {
  int port = 0;
  if (digits.empty() || digits.size() > kMaxPortDigits || !std::ranges::all_of(digits, IsDigit) ||
      !absl::SimpleAtoi(ToAbsl(digits), &port) || port < 1 || port > kMaxPort) {
    return Must(absl::StrCat("have a port from 1 to ", kMaxPort, " behind the host's ':'"));
  }
  return port;
}

absl::Status ParseAuthority(std::string_view text, SourceUrl& url) {
  if (text.find('@') != std::string_view::npos) return Must("have no credentials (user@host)");
  const bool ipv6 = text.starts_with('[');
  const size_t end = ipv6 ? text.find(']') : text.find(':');
  if (ipv6) {
    if (end == std::string_view::npos) return Must("have a ']' behind an IPv6 address");
    ASSIGN_OR_RETURN(url.host, ParseIpv6(text.substr(1, end - 1)));
  } else {
    ASSIGN_OR_RETURN(url.host, ParseName(text.substr(0, end)));
  }
  const std::string_view rest =
      end == std::string_view::npos ? "" : text.substr(ipv6 ? end + 1 : end);
  url.port = DefaultPort(url.tls);
  if (rest.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(url.port, ParsePort(rest.starts_with(':') ? rest.substr(1) : ""));
  return absl::OkStatus();
}

}  // namespace

std::string SourceUrl::Origin() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return absl::StrCat(tls ? "https://" : "http://", ipv6 ? "[" : "", host, ipv6 ? "]" : "",
                      port == DefaultPort(tls) ? "" : absl::StrCat(":", port));
}

std::string SourceUrl::FileName() const {
  return PercentDecode(std::string_view(path).substr(path.rfind('/') + 1));
}

absl::StatusOr<SourceUrl> ParseSourceUrl(std::string_view text) {
  constexpr std::string_view kHttps = "https://", kHttp = "http://";
  if (text.size() > kMaxUrlBytes) {
    return Must(absl::StrCat("have ", kMaxUrlBytes, " bytes at most"));
  }
  RETURN_IF_ERROR(CheckCharacters(text));
  SourceUrl url;
  url.tls = absl::StartsWithIgnoreCase(ToAbsl(text), ToAbsl(kHttps));
  if (!url.tls && !absl::StartsWithIgnoreCase(ToAbsl(text), ToAbsl(kHttp))) {
    return Must("begin with https:// or http://");
  }
  text = text.substr(0, text.find('#'));
  text.remove_prefix(url.tls ? kHttps.size() : kHttp.size());
  const size_t path = std::min(text.find_first_of("/?"), text.size());
  const size_t query = std::min(text.find('?'), text.size());
  RETURN_IF_ERROR(ParseAuthority(text.substr(0, path), url));
  url.path = path == query ? "/" : text.substr(path, query - path);
  url.query = text.substr(query);
  RETURN_IF_ERROR(CheckPath(url.path));
  return url;
}

}  // namespace upscaled::server
