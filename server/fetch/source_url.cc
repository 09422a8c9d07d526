#include "server/fetch/source_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
#include "server/base/curl_url.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxUrlBytes = 4096;
constexpr size_t kMaxHostBytes = 253;  // of a name in the DNS
constexpr std::string_view kHttps = "https://", kHttp = "http://";
constexpr int kHttpPort = 80, kHttpsPort = 443;
// No honest path is encoded more often.
constexpr int kMaxEncodings = 4;

absl::Status Must(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("must ", what));
}

int DefaultPort(bool tls) { return tls ? kHttpsPort : kHttpPort; }

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// The characters of RFC 3986, and brackets, since many URLs leave them unencoded.
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

// Some servers take a backslash for a slash, and the text behind a ';' for no part of a name.
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

// `text` is in brackets.
absl::StatusOr<std::string> ParseIpv6(std::string_view text) {
  std::array<uint8_t, 16> address;
  std::array<char, INET6_ADDRSTRLEN> shortest;
  const std::string inner(text.substr(1, text.size() - 2));
  if (inet_pton(AF_INET6, inner.c_str(), address.data()) != 1) {
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
    return Must("have a host without a dot at its begin or end, or next to another one");
  }
  in_addr address;
  if (IsNumber(labels.back()) && inet_pton(AF_INET, host.c_str(), &address) != 1) {
    return Must("write an IPv4 address as four decimal numbers");
  }
  return host;
}

// Whether the URL without its scheme begins with the host read by curl. curl takes further slashes
// before a host, decodes it, completes addresses such as 127.1, and passes over an empty port,
// where others may not.
bool IsSpelledPlainly(std::string_view text, std::string_view host) {
  const bool ipv6 = host.starts_with('[');  // curl writes it as short as can be
  if (ipv6 ? !text.starts_with('[') : !absl::StartsWithIgnoreCase(ToAbsl(text), ToAbsl(host))) {
    return false;
  }
  const std::string_view rest = text.substr(ipv6 ? text.find(']') + 1 : host.size());
  return rest.empty() || rest[0] == '/' || rest[0] == '?' ||
         (rest[0] == ':' && rest.size() > 1 && IsDigit(rest[1]));
}

}  // namespace

std::string SourceUrl::Origin() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return absl::StrCat(ToAbsl(tls ? kHttps : kHttp), ipv6 ? "[" : "", host, ipv6 ? "]" : "",
                      port == DefaultPort(tls) ? "" : absl::StrCat(":", port));
}

std::string SourceUrl::FileName() const {
  return PercentDecode(std::string_view(path).substr(path.rfind('/') + 1));
}

absl::StatusOr<SourceUrl> ParseSourceUrl(std::string_view text) {
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
  CurlUrl parts;
  const CURLUcode read = parts.Read(std::string(text), CURLU_PATH_AS_IS | CURLU_DISALLOW_USER);
  if (read == CURLUE_USER_NOT_ALLOWED) return Must("have no credentials (user@host)");
  if (read != CURLUE_OK) return Must(absl::StrCat("be a URL (", curl_url_strerror(read), ")"));
  const std::string host = parts.Part(CURLUPART_HOST);
  if (!IsSpelledPlainly(text.substr((url.tls ? kHttps : kHttp).size()), host)) {
    return Must(
        "write its host plainly, with a port from 1 to 65535 or none: an address of IPv4 is four "
        "decimal numbers");
  }
  if (!parts.Part(CURLUPART_ZONEID).empty()) return Must("have an IPv6 address without a zone");
  ASSIGN_OR_RETURN(url.host, host.starts_with('[') ? ParseIpv6(host) : ParseName(host));
  if (!absl::SimpleAtoi(parts.Part(CURLUPART_PORT, CURLU_DEFAULT_PORT), &url.port) ||
      url.port < 1) {
    return Must("have a port from 1 to 65535");
  }
  url.path = parts.Part(CURLUPART_PATH);
  url.query = text.substr(std::min(text.find('?'), text.size()));
  RETURN_IF_ERROR(CheckPath(url.path));
  return url;
}

}  // namespace upscaled::server
