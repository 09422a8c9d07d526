// The body of an answer with an unknown length at its beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/byte_stream.h"
#include "server/http/http_exchange.h"

namespace upscaled::server {

// Begins the answer with the first kPieceBytes: an earlier failure can still become an
// error. A body that is not longer is sent at once, with its length. Not thread safe.
class AnswerSink final : public ByteSink {
 public:
  static constexpr size_t kPieceBytes = size_t{64} << 10;

  // `exchange` must outlive it.
  explicit AnswerSink(HttpExchange& exchange) : exchange_(exchange) {}

  // Before the first byte: status and fields, without a body, and the names of the fields of
  // Finish.
  void Open(HttpResponse response, std::vector<std::string> last_names);
  // As HttpExchange::Write.
  absl::Status Write(std::span<const uint8_t> bytes) override;
  // Last of the waiting members: hands over all written bytes, if the answer has begun, and stays
  // until the connection holds none of it. Errors as Write's.
  absl::Status Settle();
  // Ends the answer, after Settle. `last` are trailers, or fields of the header if it was not yet
  // sent. They then replace fields of their names. Does not wait.
  void Finish(std::vector<HttpField> last);

  // Whether the client may have seen a part of the answer.
  bool begun() const { return begun_; }
  // Forgets the answer before its beginning.
  void Reset();

 private:
  absl::Status Flush();

  HttpExchange& exchange_;
  std::optional<HttpResponse> response_;
  std::vector<std::string> last_names_;
  std::string piece_;
  bool begun_ = false;
};

}  // namespace upscaled::server
