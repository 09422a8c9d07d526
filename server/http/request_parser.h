// The requests of one connection, from bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "server/http/http_fault.h"
#include "server/http/http_message.h"

namespace upscaled::server {

struct ParsedHttpRequest {
  HttpRequest request;  // without peer and parameter
  int minor_version = 1;
  bool keep_alive = true;
  bool expects_continue = false;  // a body that is sent after "100 Continue"
};

// One request, over Boost.Beast. Not thread safe.
class HttpRequestParser {
 public:
  explicit HttpRequestParser(size_t max_header_bytes);
  ~HttpRequestParser();

  // Takes the complete parts of `bytes` from the end of the last call on, and returns how many; the
  // caller keeps the others. Nothing beyond the header is taken.
  size_t ReadHeader(std::span<const uint8_t> bytes);
  bool header_done() const;
  // Whether a part of the request has come.
  bool begun() const;

  // Once the header is done; of a faulty one its understood part.
  ParsedHttpRequest& parsed();
  // Consumes body bytes and passes the decoded content to `sink`. Returns the number of bytes
  // consumed. `sink` returns the number it accepted. If these are fewer than offered, ReadBody
  // returns. Drops trailers.
  size_t ReadBody(std::span<const uint8_t> bytes,
                  const std::function<size_t(std::span<const uint8_t>)>& sink);
  bool body_done() const;

  // Not empty: this is no valid request, nothing more can be read, and later bytes cannot be
  // trusted.
  const std::optional<HttpFault>& fault() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace upscaled::server
