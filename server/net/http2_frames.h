// HTTP/2's frames (RFC 9113, section 4) without their contents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace upscaled::server {

enum class Http2FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kGoAway = 7,
  kContinuation = 9,
};  // others are what they are

inline constexpr uint8_t kHttp2EndStream = 0x1;
inline constexpr uint8_t kHttp2EndHeaders = 0x4;
inline constexpr size_t kHttp2FrameHeaderBytes = 9;

struct Http2FrameHeader {
  size_t payload_bytes;
  Http2FrameType type;
  uint8_t flags;
  uint32_t stream;
};

// Finds the frames of one direction of a connection, in bytes with any cuts. Constant memory; not
// thread safe.
class Http2FrameCursor {
 public:
  // Takes bytes from the front, up to the next frame header and with it; nullopt: all were taken,
  // and none has ended there.
  std::optional<Http2FrameHeader> Next(std::span<const uint8_t>& bytes);
  // Whether the bytes so far end with a whole frame.
  bool at_boundary() const { return header_bytes_ == 0 && payload_bytes_ == 0; }

 private:
  std::array<uint8_t, kHttp2FrameHeaderBytes> header_ = {};
  size_t header_bytes_ = 0;   // of `header_` that have come
  size_t payload_bytes_ = 0;  // of the frame that are still to come
};

enum class Http2Error : uint8_t { kNoError = 0x0, kProtocolError = 0x1, kEnhanceYourCalm = 0xb };

// An empty SETTINGS frame, the first frame a server must send.
std::string EmptySettingsFrame();
// `last_stream`: the client's last one the server may have acted upon.
std::string GoAwayFrame(uint32_t last_stream, Http2Error error, std::string_view debug_text);

}  // namespace upscaled::server
