// The bytes of answers (RFC 9112).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "server/http/http_message.h"

namespace upscaled::server {

enum class HttpFraming : uint8_t { kLength, kChunked, kUntilClose };

// The connection's part of an answer.
struct HttpFrame {
  int minor_version = 1;  // of HTTP/1
  bool keep_alive = true;
  HttpFraming framing = HttpFraming::kLength;
  size_t body_bytes = 0;                   // for kLength
  std::vector<std::string> trailer_names;  // for kChunked
};

// Status line and fields, with the empty line behind them. `now` is for the field Date.
std::string HttpAnswerHeader(const HttpResponse& response, const HttpFrame& frame, absl::Time now);

// A chunk of `bytes`, not empty.
std::string HttpChunk(std::string_view bytes);
// The last chunk; with the `trailers` named in `names`.
std::string HttpLastChunk(const std::vector<HttpField>& trailers,
                          const std::vector<std::string>& names);

}  // namespace upscaled::server
