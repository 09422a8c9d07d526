#include "server/lifecycle/self_call.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/lifecycle/self_connection.h"

namespace upscaled::server {
namespace {

// HTTP/2's frames (RFC 9113, section 4.1): length (3 bytes), type, flags, stream (4 bytes),
// payload.
constexpr size_t kFrameHeaderBytes = 9;
enum FrameType : uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoAway = 7 };
constexpr uint8_t kEndStream = 1, kEndHeaders = 4;
constexpr size_t kMaxAnswerBytes = size_t{64} << 10;

std::string Frame(FrameType type, uint8_t flags, uint8_t stream, std::string_view payload) {
  std::string frame = {0, static_cast<char>(payload.size() >> 8), static_cast<char>(payload.size()),
                       static_cast<char>(type), static_cast<char>(flags)};
  frame += std::string{0, 0, 0, static_cast<char>(stream)};
  return frame.append(payload);
}

// Never indexed, no Huffman code (RFC 7541, section 6.2.2); shorter than 127 bytes.
std::string Text(std::string_view text) {
  return std::string(1, static_cast<char>(text.size())).append(text);
}

// Preface, settings, and one call of Check with an empty message of 5 bytes.
std::string Request(const SelfCallTarget& target) {
  std::string headers = {static_cast<char>(0x83),                       // :method POST
                         static_cast<char>(target.tls ? 0x87 : 0x86)};  // :scheme
  headers += '\x04' + Text("/grpc.health.v1.Health/Check");             // :path
  headers += '\x01' + Text("localhost");                                // :authority
  headers += "\x0f\x10" + Text("application/grpc");                     // content-type
  headers += std::string(1, '\0') + Text("te") + Text("trailers");
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "") +
         Frame(kHeaders, kEndHeaders, 1, headers) +
         Frame(kData, kEndStream, 1, std::string(5, '\0'));
}

// Takes whole frames out of `bytes`. true once there is a message, false when more must be read.
absl::StatusOr<bool> TakeAnswer(std::string& bytes) {
  while (bytes.size() >= kFrameHeaderBytes) {
    const auto byte = [&bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    const size_t payload = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
    const uint8_t type = byte(3), flags = byte(4);
    if (payload > kMaxAnswerBytes) return absl::UnavailableError("its port speaks no HTTP/2");
    if (bytes.size() < kFrameHeaderBytes + payload) return false;
    bytes.erase(0, kFrameHeaderBytes + payload);
    if (type == kData && payload > 0) return true;
    if (type == kReset || type == kGoAway || (type == kHeaders && (flags & kEndStream) != 0)) {
      return absl::UnavailableError(absl::StrCat("its port refused the call (frame ", type, ")"));
    }
  }
  return false;
}

absl::Status Exchange(SelfConnection& connection, const SelfCallTarget& target) {
  RETURN_IF_ERROR(connection.Handshake());
  RETURN_IF_ERROR(connection.Write(Request(target)));
  std::string answer;
  while (true) {
    RETURN_IF_ERROR(connection.ReadSome(answer));
    ASSIGN_OR_RETURN(const bool complete, TakeAnswer(answer));
    if (complete) return absl::OkStatus();
  }
}

}  // namespace

absl::Status CallSelf(const SelfCallTarget& target, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SelfConnection> connection,
                   SelfConnection::Open(target, timeout));
  const absl::Status status = Exchange(*connection, target);
  if (!status.ok() && target.client_certificates && connection->saw_certificate()) {
    return absl::OkStatus();
  }
  return status;
}

}  // namespace upscaled::server
