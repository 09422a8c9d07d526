// Parses the URL of a source more strictly than the standards: no program on the path can read a
// different one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled::server {

struct SourceUrl {
  bool tls = true;    // https, else http
  std::string host;   // a name in lower case, or an address; IPv6 as short as can be, no brackets
  int port = 0;       // the scheme's where the URL has none
  std::string path;   // as written; begins with '/'
  std::string query;  // as written, with its '?'; "": none

  // "https://images.example.com", with the port where it is not the scheme's.
  std::string Origin() const;
  // Human-readable: without the query, since it may hold a signature.
  std::string Shown() const { return Origin() + path; }
  // The requested URL. Any other reader finds the same parts in it.
  std::string Text() const { return Shown() + query; }
  // The last part of the path, percent-decoded; may be "".
  std::string FileName() const;
};

// A fragment is dropped. INVALID_ARGUMENT says what the text should be ("must ..."): for other
// schemes, credentials, characters in need of percent-encoding, hosts other than plain names or
// addresses (127.1, 0x7f000001, a trailing dot), and paths with a part that some server may take
// for "." or "..", in any encoding.
absl::StatusOr<SourceUrl> ParseSourceUrl(std::string_view text);

}  // namespace upscaled::server
