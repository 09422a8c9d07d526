// Any bytes as those of an HTTP/2 client, and as those of the server, however they are cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "absl/time/time.h"
#include "server/net/http2_guard.h"

namespace {

using upscaled::server::CallFault;
using upscaled::server::Http2Guard;
using upscaled::server::Http2Limits;
using upscaled::server::Offence;

constexpr int kMaxResets = 10;
const Http2Limits kLimits = {.max_header_block_bytes = 200,
                             .max_control_frame_bytes = 100,
                             .control_frames = {.per_second = 1, .burst = 20}};

// The verdict of the guard on `bytes` in parts of `part_bytes`.
std::optional<Offence> Follow(std::span<const uint8_t> bytes, size_t part_bytes) {
  int resets = 0;
  Http2Guard guard(
      kLimits, [&](CallFault) { return ++resets <= kMaxResets; }, absl::UnixEpoch());
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(part_bytes, bytes.size()));
    if (const auto offence = guard.OnReceived(part, absl::UnixEpoch())) return offence;
    bytes = bytes.subspan(part.size());
  }
  return std::nullopt;
}

// The same of the server's bytes.
std::optional<Offence> FollowServer(std::span<const uint8_t> bytes, size_t part_bytes) {
  int faults = 0;
  Http2Guard guard(
      kLimits, [&](CallFault) { return ++faults <= kMaxResets; }, absl::UnixEpoch());
  std::optional<Offence> first;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(part_bytes, bytes.size()));
    if (const auto offence = guard.OnSent(part); !first) first = offence;
    bytes = bytes.subspan(part.size());
  }
  return first;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Bytes earn control frames when they come, so their cut may affect only those.
  const std::optional<Offence> whole = Follow({data, size}, size);
  const std::optional<Offence> bytewise = Follow({data, size}, 1);
  const bool rate = whole == Offence::kControlFrames || bytewise == Offence::kControlFrames;
  if (!rate && whole != bytewise) std::abort();
  if (FollowServer({data, size}, size) != FollowServer({data, size}, 1)) std::abort();
  return 0;
}
