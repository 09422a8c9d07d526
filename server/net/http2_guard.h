// Follows the frames between an HTTP/2 client and the server, and says when the client breaks the
// rules.
//
// It reads only frame headers (RFC 9113, 4.1), never their payloads: the server's HTTP/2 does the
// rest. It stands in front of gRPC. gRPC sets no limits to how often a client aborts calls
// (CVE-2023-44487), has the server abort them (CVE-2025-8671) or has them refused, or sends empty
// frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "absl/time/time.h"
#include "server/net/connection_table.h"
#include "server/net/http2_frames.h"
#include "server/net/token_bucket.h"

namespace upscaled::server {

struct Http2Limits {
  // Bytes of the frames of one header block, with 9 for each frame: bounds a call's compressed
  // metadata.
  size_t max_header_block_bytes = size_t{32} << 10;
  // Frames other than DATA of a larger size are refused; RFC 9113's smallest limit.
  size_t max_control_frame_bytes = size_t{16} << 10;
  // Empty frames: all but HEADERS, RST_STREAM and DATA with a payload or an end.
  Rate control_frames = {.per_second = 1000, .burst = 10'000};
  // Active clients may send more of them: the allowance added by one call, and by a byte in either
  // direction. Clients confirm received data, some of them every frame.
  double control_frames_per_call = 8;
  double control_frames_per_byte = 1.0 / 1024;
};

// Uses constant memory for any input. Not thread safe.
class Http2Guard {
 public:
  // A client's first bytes (RFC 9113, 3.4).
  static constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

  // `take_fault` is called for each such end; false: it is one too many.
  Http2Guard(const Http2Limits& limits, std::function<bool(CallFault)> take_fault, absl::Time now);

  // The next bytes of the client, from its first one on, cut as they may be. Returns their
  // violation; then the connection must end.
  std::optional<Offence> OnReceived(std::span<const uint8_t> bytes, absl::Time now);
  // The next bytes of the server. Returns the client's violation if it has the server send them;
  // they may still be passed on.
  std::optional<Offence> OnSent(std::span<const uint8_t> bytes);

  // The frame to tell the client the violation at its connection's end; "" where the server's bytes
  // so far end within a frame.
  std::string Farewell(Offence offence) const;

  // Missing bytes of the preface.
  size_t missing_preface_bytes() const { return kPreface.size() - preface_bytes_; }

 private:
  bool TakePreface(std::span<const uint8_t>& bytes);
  std::optional<Offence> OnFrame(const Http2FrameHeader& frame, absl::Time now);
  std::optional<Offence> OnHeaderBlock(const Http2FrameHeader& frame);
  std::optional<Offence> OnSentFrame(const Http2FrameHeader& frame);

  const Http2Limits limits_;
  const std::function<bool(CallFault)> take_fault_;
  TokenBucket control_frames_;
  size_t preface_bytes_ = 0;
  Http2FrameCursor received_, sent_;
  size_t header_block_bytes_ = 0;  // of the header block so far
  bool in_header_block_ = false;   // only CONTINUATION may follow
  uint32_t last_stream_ = 0;       // that the client has begun
  bool server_spoke_ = false;
  // Calls with the headers of an answer, without those of its end. Too many by resets; as often, a
  // refusal is not counted.
  int64_t answers_begun_ = 0;
};

}  // namespace upscaled::server
