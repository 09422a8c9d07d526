#include "server/sandbox/decode_protocol.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// Repeats `transfer` (send or recv) until all of `bytes` has gone through.
template <typename Byte, typename Transfer>
absl::Status TransferAll(std::span<Byte> bytes, Transfer transfer) {
  while (!bytes.empty()) {
    const ssize_t count = transfer(bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::UnavailableError(absl::StrCat("the other end has gone", count < 0 ? ": " : "",
                                                 count < 0 ? std::strerror(errno) : ""));
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FrameSocket::Send(FrameType type, std::span<const uint8_t> payload) const {
  const FrameHeader header{type, static_cast<uint32_t>(payload.size())};
  const auto send_part = [this](const uint8_t* data, size_t size) {
    return send(fd_, data, size, MSG_NOSIGNAL);
  };
  RETURN_IF_ERROR(
      TransferAll(std::span(reinterpret_cast<const uint8_t*>(&header), sizeof(header)), send_part));
  return TransferAll(payload, send_part);
}

bool FrameSocket::IsReadable(absl::Duration patience) const {
  pollfd awaited{.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&awaited, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) > 0;
}

absl::StatusOr<FrameHeader> FrameSocket::ReceiveHeader() const {
  return ReceiveStruct<FrameHeader>();
}

absl::StatusOr<OpenPayload> FrameSocket::ReceiveOpen(const FrameHeader& frame) const {
  std::vector<uint8_t> payload(frame.payload_bytes);
  RETURN_IF_ERROR(Receive(payload));
  OpenPayload open{.version = 0};
  std::memcpy(&open, payload.data(), std::min(payload.size(), sizeof(open)));
  if (open.version == kDecodeProtocolVersion && payload.size() == sizeof(open)) return open;
  return absl::FailedPreconditionError(
      absl::StrCat("upscaled-decode speaks version ", kDecodeProtocolVersion, " (", sizeof(open),
                   " bytes) of the decoders' protocol, and upscaled speaks version ", open.version,
                   " (", payload.size(), " bytes): install both from one build"));
}

absl::Status FrameSocket::Receive(std::span<uint8_t> dst) const {
  return TransferAll(dst, [this](uint8_t* data, size_t size) { return recv(fd_, data, size, 0); });
}

}  // namespace upscaled::server
