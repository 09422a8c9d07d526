#include "server/net/http2_guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace upscaled::server {
namespace {

Http2Error ErrorOf(Offence offence) {
  return offence == Offence::kFrame ? Http2Error::kProtocolError : Http2Error::kEnhanceYourCalm;
}

}  // namespace

Http2Guard::Http2Guard(const Http2Limits& limits, std::function<bool(CallFault)> take_fault,
                       absl::Time now)
    : limits_(limits),
      take_fault_(std::move(take_fault)),
      control_frames_(limits.control_frames, now) {}

std::optional<Offence> Http2Guard::OnReceived(std::span<const uint8_t> bytes, absl::Time now) {
  if (!TakePreface(bytes)) return Offence::kHandshake;
  control_frames_.Earn(static_cast<double>(bytes.size()) * limits_.control_frames_per_byte);
  while (const std::optional<Http2FrameHeader> frame = received_.Next(bytes)) {
    if (const auto offence = OnFrame(*frame, now)) return offence;
  }
  return std::nullopt;
}

std::optional<Offence> Http2Guard::OnSent(std::span<const uint8_t> bytes) {
  server_spoke_ |= !bytes.empty();
  control_frames_.Earn(static_cast<double>(bytes.size()) * limits_.control_frames_per_byte);
  std::optional<Offence> offence;
  while (const std::optional<Http2FrameHeader> frame = sent_.Next(bytes)) {
    if (const auto another = OnSentFrame(*frame); !offence) offence = another;
  }
  return offence;
}

std::string Http2Guard::Farewell(Offence offence) const {
  if (!sent_.at_boundary()) return "";
  const std::string goaway = GoAwayFrame(last_stream_, ErrorOf(offence), OffenceName(offence));
  return server_spoke_ ? goaway : EmptySettingsFrame() + goaway;
}

bool Http2Guard::TakePreface(std::span<const uint8_t>& bytes) {
  const size_t taken = std::min(missing_preface_bytes(), bytes.size());
  const bool equal = std::memcmp(bytes.data(), kPreface.data() + preface_bytes_, taken) == 0;
  preface_bytes_ += taken;
  bytes = bytes.subspan(taken);
  return equal;
}

std::optional<Offence> Http2Guard::OnFrame(const Http2FrameHeader& frame, absl::Time now) {
  if (in_header_block_ != (frame.type == Http2FrameType::kContinuation)) return Offence::kFrame;
  switch (frame.type) {
    case Http2FrameType::kHeaders:
      last_stream_ = std::max(last_stream_, frame.stream);
      control_frames_.Earn(limits_.control_frames_per_call);
      header_block_bytes_ = 0;
      [[fallthrough]];
    case Http2FrameType::kContinuation:
      return OnHeaderBlock(frame);
    case Http2FrameType::kRstStream:
      if (!take_fault_(CallFault::kReset)) return Offence::kResets;
      break;
    case Http2FrameType::kData:
      if (frame.payload_bytes > 0 || (frame.flags & kHttp2EndStream) != 0) return std::nullopt;
      [[fallthrough]];
    default:
      if (!control_frames_.Take(now)) return Offence::kControlFrames;
  }
  if (frame.payload_bytes > limits_.max_control_frame_bytes) return Offence::kFrame;
  return std::nullopt;
}

std::optional<Offence> Http2Guard::OnHeaderBlock(const Http2FrameHeader& frame) {
  in_header_block_ = (frame.flags & kHttp2EndHeaders) == 0;
  header_block_bytes_ += kHttp2FrameHeaderBytes + frame.payload_bytes;
  if (header_block_bytes_ > limits_.max_header_block_bytes) return Offence::kHeaderBytes;
  return std::nullopt;
}

std::optional<Offence> Http2Guard::OnSentFrame(const Http2FrameHeader& frame) {
  if (frame.type == Http2FrameType::kRstStream) {
    if (!take_fault_(CallFault::kServerReset)) return Offence::kServerResets;
  } else if (frame.type == Http2FrameType::kHeaders) {
    if ((frame.flags & kHttp2EndStream) == 0) {
      ++answers_begun_;
    } else if (answers_begun_ > 0) {
      --answers_begun_;
    } else if (!take_fault_(CallFault::kRefused)) {
      return Offence::kRefusedCalls;
    }
  }
  return std::nullopt;
}

}  // namespace upscaled::server
