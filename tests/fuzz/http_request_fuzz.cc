// Requests of HTTP/1.1 with their bodies, as a connection takes them: the way in which bytes come
// and are taken must not matter, and nothing must be taken twice.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/base/check.h"
#include "server/http/request_parser.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxHeaderBytes = 16 * 1024;

struct Outcome {
  bool faulty = false, done = false;
  std::string content;
  size_t taken = 0;
};

Outcome Parse(std::span<const uint8_t> bytes, size_t piece_bytes, size_t sink_bytes) {
  HttpRequestParser parser(kMaxHeaderBytes);
  Outcome outcome;
  size_t come = 0;
  const auto sink = [&](std::span<const uint8_t> content) {
    const size_t n = std::min(content.size(), sink_bytes);
    outcome.content.append(content.begin(), content.begin() + static_cast<ptrdiff_t>(n));
    return n;
  };
  while (come < bytes.size() && !parser.fault() && !outcome.done) {
    come += std::min(piece_bytes, bytes.size() - come);
    for (size_t taken = 1; taken > 0 && !parser.fault() && !outcome.done;) {
      const auto left = bytes.first(come).subspan(outcome.taken);
      const bool header = !parser.header_done();
      taken = header ? parser.ReadHeader(left) : parser.ReadBody(left, sink);
      UPSCALED_CHECK(taken <= left.size());
      outcome.taken += taken;
      outcome.done = !parser.fault() && parser.header_done() && parser.body_done();
    }
  }
  outcome.faulty = parser.fault().has_value();
  return outcome;
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using upscaled::server::Outcome;
  using upscaled::server::Parse;
  const std::span<const uint8_t> bytes(data, size);
  const Outcome whole = Parse(bytes, bytes.size() + 1, SIZE_MAX);
  for (const auto& [piece_bytes, sink_bytes] : {std::pair<size_t, size_t>{1, SIZE_MAX}, {7, 3}}) {
    const Outcome pieces = Parse(bytes, piece_bytes, sink_bytes);
    if (whole.faulty || pieces.faulty) continue;  // a fault may be seen earlier or later
    UPSCALED_CHECK(pieces.done == whole.done);
    if (!whole.done) continue;
    UPSCALED_CHECK(pieces.taken == whole.taken);
    UPSCALED_CHECK(pieces.content == whole.content);
  }
  return 0;
}
