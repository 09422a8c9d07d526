#include "server/http/request_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/http/http_target.h"

namespace upscaled::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

// A chunk's header with its extensions; the trailers.
constexpr size_t kMaxChunkHeaderBytes = size_t{8} << 10;
constexpr size_t kMinLastChunkBytes = 5;
// Bytes of chunks without their content: this much in all, for each chunk, and for each byte.
constexpr uint64_t kFreeChunkBytes = uint64_t{16} << 10;
constexpr uint64_t kFreeBytesPerChunk = 16;
constexpr uint64_t kFreeBytesPerByte = 2;

std::string ToString(string_view text) { return {text.data(), text.size()}; }

HttpFault Malformed(std::string_view message) {
  return {400, MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kUnspecified, message)};
}

// Counts the bytes of empty lines before a request: some clients send one behind the last body
// (RFC 9112, 2.2).
size_t EmptyLineBytes(std::span<const uint8_t> bytes) {
  size_t count = 0;
  while (count + 1 < bytes.size() && bytes[count] == '\r' && bytes[count + 1] == '\n') count += 2;
  return count;
}

// A field over several lines is read in different ways by different programs (RFC 9112, 5.2).
bool HasFoldedLine(std::span<const uint8_t> header) {
  for (size_t i = 1; i < header.size(); ++i) {
    if (header[i - 1] == '\n' && (header[i] == ' ' || header[i] == '\t')) return true;
  }
  return false;
}

HttpFault Unsupported(int status, std::string_view message) {
  return {status, MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kUnspecified, message)};
}

}  // namespace

class HttpRequestParser::Impl final : public http::basic_parser<true> {
 public:
  explicit Impl(size_t max_header_bytes) : max_header_bytes_(max_header_bytes) {
    header_limit(static_cast<uint32_t>(max_header_bytes));
    body_limit(std::numeric_limits<uint64_t>::max());  // whoever takes a body limits it
  }

  size_t ReadHeader(std::span<const uint8_t> bytes) {
    if (got_some()) return ReadLines(bytes);
    const size_t empty_bytes = EmptyLineBytes(bytes);
    bytes = bytes.subspan(empty_bytes);
    header_bytes_ += empty_bytes;
    if (header_bytes_ > max_header_bytes_) fault_ = ToFault(http::error::header_limit);
    const bool half = bytes.size() == 1 && bytes[0] == '\r';
    if (fault_ || bytes.empty() || half) return empty_bytes;
    return empty_bytes + ReadLines(bytes);
  }

  size_t ReadBody(std::span<const uint8_t> bytes,
                  const std::function<size_t(std::span<const uint8_t>)>& sink) {
    // Beast asserts their presence when it looks at a last chunk for the second time.
    if (chunk_needs_more_ && bytes.size() < kMinLastChunkBytes) return 0;
    sink_ = &sink;
    size_t taken = 0;
    error_code error;
    while (!error && !is_done() && taken < bytes.size()) {
      const auto rest = bytes.subspan(taken);
      taken += put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    }
    raw_body_bytes_ += taken;
    chunk_needs_more_ = error == http::error::need_more;
    const size_t left = bytes.size() - taken;
    if (error == http::error::need_more && left <= kMaxChunkHeaderBytes) error = {};
    if (error == http::error::need_buffer) error = {};
    if (error == http::error::need_more) {
      fault_ = Malformed(absl::StrCat("a chunk's header or the trailers are longer than ",
                                      kMaxChunkHeaderBytes, " bytes"));
    } else if (error) {
      fault_ = Malformed(absl::StrCat("the body is malformed: ", error.message()));
    } else if (raw_body_bytes_ > kFreeChunkBytes + kFreeBytesPerChunk * chunks_ +
                                     (1 + kFreeBytesPerByte) * body_bytes_) {
      fault_ = Malformed(absl::StrCat("the body's chunks hold ", body_bytes_, " bytes in ",
                                      raw_body_bytes_, ", too little next to their headers"));
    }
    return taken;
  }

  ParsedHttpRequest parsed_;
  std::optional<HttpFault> fault_;

 private:
  void on_request_impl(http::verb verb, string_view method, string_view target, int version,
                       error_code&) override {
    known_method_ = verb != http::verb::unknown;
    parsed_.request.method = ToString(method);
    target_ = ToString(target);
    parsed_.minor_version = version % 10;
  }
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (is_header_done()) return;  // a trailer
    parsed_.request.fields.push_back({ToString(name), ToString(value)});
  }
  size_t on_body_impl(string_view body, error_code& error) override { return Take(body, error); }
  void on_chunk_header_impl(uint64_t, string_view, error_code&) override { ++chunks_; }
  size_t on_chunk_body_impl(uint64_t, string_view body, error_code& error) override {
    return Take(body, error);
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  size_t ReadLines(std::span<const uint8_t> bytes) {
    error_code error;
    const size_t taken = put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    header_bytes_ += taken;
    const size_t header_bytes = header_bytes_ + (is_header_done() ? 0 : bytes.size() - taken);
    if (header_bytes > max_header_bytes_) {
      error = http::error::header_limit;
    } else if (error == http::error::need_more) {
      return taken;
    }
    if (error) {
      fault_ = ToFault(error);
    } else if (HasFoldedLine(bytes.first(taken))) {
      fault_ = Malformed("a field of the header goes on in a second line (obs-fold)");
    } else if (is_header_done()) {
      CheckHeader();
    }
    return taken;
  }

  size_t Take(string_view body, error_code& error) {
    const size_t taken = (*sink_)({reinterpret_cast<const uint8_t*>(body.data()), body.size()});
    body_bytes_ += taken;
    if (taken < body.size()) error = http::error::need_buffer;
    return taken;
  }

  size_t Count(std::string_view name) const {
    size_t count = 0;
    for (const HttpField& field : parsed_.request.fields) {
      count += absl::EqualsIgnoreCase(field.name, ToAbsl(name)) ? 1 : 0;
    }
    return count;
  }

  void CheckHeader() {
    HttpRequest& request = parsed_.request;
    fault_ = FindFault();
    if (fault_) return;
    absl::StatusOr<HttpTarget> target = ParseHttpTarget(target_);
    if (!target.ok()) {
      fault_ = HttpFault{400, WithReason(target.status(), ErrorReason::kUnspecified)};
      return;
    }
    request.path = std::move(target->path);
    request.sent_path = std::move(target->sent_path);
    request.query = std::move(target->query);
    request.has_body = !is_done();
    request.content_length = std::nullopt;
    if (!chunked()) request.content_length = content_length().value_or(0);
    parsed_.keep_alive = keep_alive();
    parsed_.expects_continue =
        request.has_body && parsed_.minor_version >= 1 && Count("Expect") > 0;
  }

  std::optional<HttpFault> FindFault() const {
    const HttpRequest& request = parsed_.request;
    if (!known_method_) {
      return Unsupported(501, absl::StrCat("the method ", Quoted(request.method), " is unknown"));
    }
    const size_t encodings = Count("Transfer-Encoding");
    const bool http11 = parsed_.minor_version >= 1;
    if (encodings > 0 && !http11) return Malformed("Transfer-Encoding in a request of HTTP/1.0");
    if (encodings > 1 ||
        (encodings == 1 &&
         !absl::EqualsIgnoreCase(ToAbsl(request.Field("Transfer-Encoding")), "chunked"))) {
      return Unsupported(
          501, absl::StrCat("the only Transfer-Encoding is chunked; there are ", encodings,
                            " fields, the first is ", Quoted(request.Field("Transfer-Encoding"))));
    }
    const size_t hosts = Count("Host");
    if (hosts > 1 || (hosts == 0 && http11)) {
      return Malformed(absl::StrCat("there must be one Host; there are ", hosts));
    }
    if (http11 && Count("Expect") > 0 &&
        !absl::EqualsIgnoreCase(ToAbsl(request.Field("Expect")), "100-continue")) {
      return Unsupported(417, absl::StrCat("the only Expect is 100-continue; this is ",
                                           Quoted(request.Field("Expect"))));
    }
    return std::nullopt;
  }

  HttpFault ToFault(error_code error) const {
    if (error == http::error::header_limit) {
      return {431,
              MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                        absl::StrCat("the header is longer than ", max_header_bytes_, " bytes"),
                        {{"limit", "header-bytes"}, {"maximum", absl::StrCat(max_header_bytes_)}})};
    }
    if (error == http::error::bad_version) return Unsupported(505, "HTTP/1.1 and HTTP/1.0 only");
    return Malformed(absl::StrCat("no HTTP request: ", error.message()));
  }

  const size_t max_header_bytes_;
  size_t header_bytes_ = 0;
  std::string target_;
  bool known_method_ = false;
  const std::function<size_t(std::span<const uint8_t>)>* sink_ = nullptr;  // during ReadBody
  bool chunk_needs_more_ = false;
  uint64_t raw_body_bytes_ = 0, body_bytes_ = 0, chunks_ = 0;
};

HttpRequestParser::HttpRequestParser(size_t max_header_bytes)
    : impl_(std::make_unique<Impl>(max_header_bytes)) {}
HttpRequestParser::~HttpRequestParser() = default;

size_t HttpRequestParser::ReadHeader(std::span<const uint8_t> bytes) {
  return impl_->ReadHeader(bytes);
}
bool HttpRequestParser::header_done() const { return impl_->is_header_done(); }
bool HttpRequestParser::begun() const { return impl_->got_some(); }
ParsedHttpRequest& HttpRequestParser::parsed() { return impl_->parsed_; }
size_t HttpRequestParser::ReadBody(std::span<const uint8_t> bytes,
                                   const std::function<size_t(std::span<const uint8_t>)>& sink) {
  return impl_->ReadBody(bytes, sink);
}
bool HttpRequestParser::body_done() const { return impl_->is_done(); }
const std::optional<HttpFault>& HttpRequestParser::fault() const { return impl_->fault_; }

}  // namespace upscaled::server
