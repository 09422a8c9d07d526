#include "server/net/http2_frames.h"

#include <algorithm>
#include <cstring>

namespace upscaled::server {
namespace {

constexpr uint32_t kStreamBits = 0x7fffffff;  // the first one is reserved

void AppendNumber(uint32_t number, int bytes, std::string& text) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(number >> shift & 0xff);
  }
}

// A frame of the connection, without flags.
std::string Frame(Http2FrameType type, std::string_view payload) {
  std::string frame;
  AppendNumber(static_cast<uint32_t>(payload.size()), 3, frame);
  frame += static_cast<char>(type);
  frame += '\0';              // flags
  AppendNumber(0, 4, frame);  // stream
  return frame.append(payload);
}

}  // namespace

std::optional<Http2FrameHeader> Http2FrameCursor::Next(std::span<const uint8_t>& bytes) {
  const size_t skipped = std::min(payload_bytes_, bytes.size());
  payload_bytes_ -= skipped;
  bytes = bytes.subspan(skipped);
  const size_t taken = std::min(kHttp2FrameHeaderBytes - header_bytes_, bytes.size());
  if (taken == 0) return std::nullopt;
  std::memcpy(header_.data() + header_bytes_, bytes.data(), taken);
  header_bytes_ += taken;
  bytes = bytes.subspan(taken);
  if (header_bytes_ < kHttp2FrameHeaderBytes) return std::nullopt;
  header_bytes_ = 0;
  payload_bytes_ = size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | header_[2];
  const uint32_t stream = uint32_t{header_[5]} << 24 | uint32_t{header_[6]} << 16 |
                          uint32_t{header_[7]} << 8 | header_[8];
  return Http2FrameHeader{.payload_bytes = payload_bytes_,
                          .type = Http2FrameType{header_[3]},
                          .flags = header_[4],
                          .stream = stream & kStreamBits};
}

std::string EmptySettingsFrame() { return Frame(Http2FrameType::kSettings, ""); }

std::string GoAwayFrame(uint32_t last_stream, Http2Error error, std::string_view debug_text) {
  std::string payload;
  AppendNumber(last_stream, 4, payload);
  AppendNumber(static_cast<uint32_t>(error), 4, payload);
  return Frame(Http2FrameType::kGoAway, payload.append(debug_text));
}

}  // namespace upscaled::server
