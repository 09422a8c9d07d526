// The frames between the server and a decode worker, over a stream socket: both are of one build on
// one machine, so numbers are native. The server asks, the worker answers; neither sends unasked.
// A worker refuses a kOpen of another version. All versions share FrameHeader, FailedPayload, and
// the first field of OpenPayload.
//
//   kOpen        ->                 version, limits and bounds, once
//                <- kNeedBytes      any number of times, wherever the decoder wants input:
//   kBytes       ->                 some of the encoded image; empty: its end
//                <- kOpened         metadata and warnings (image_notes.h)
//   kNextFrame   ->                 before each frame of an animation
//                <- kFrame          how long it is shown
//   kReadRows    ->                 any number of times
//                <- kRows           just their bytes
//                <- kEnd            behind the last rows of the last frame: metadata and warnings
//                                   that came since
//                <- kFailed         instead of kOpened, kFrame or kRows; the worker then ends
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/image/image.h"

namespace upscaled::server {

enum class FrameType : uint32_t {
  kOpen = 1,
  kNeedBytes,
  kBytes,
  kOpened,
  kNextFrame,
  kFrame,
  kReadRows,
  kRows,
  kEnd,
  kFailed,
};

struct FrameHeader {
  FrameType type;
  uint32_t payload_bytes;
};

// Count it up with each change of a frame or of image_notes.h.
inline constexpr uint64_t kDecodeProtocolVersion = 2;

struct OpenPayload {
  uint64_t version = kDecodeProtocolVersion;
  int64_t max_pixels;
  uint64_t max_metadata_bytes;
  uint64_t memory_bytes;  // that the worker may take beside what it has
  int32_t max_side_px;
  int32_t max_jpeg_scans;
  int32_t max_frames;
  int32_t frame;
  bool warns_of_frames;
  bool fill_damage;
  ImageSpec spec;  // of the rows that are expected
};

struct ReadRowsPayload {
  int32_t rows;
};

// Followed by the message.
struct FailedPayload {
  int32_t code;   // absl::StatusCode
  int32_t limit;  // DecodeLimit; -1: none was passed
  int64_t value;  // that passed it
};

inline constexpr size_t kMaxBytesPayload = size_t{64} << 10;
inline constexpr size_t kMaxRowsPayload = size_t{256} << 10;  // but for a row that is longer
inline constexpr size_t kMaxFailureMessage = 4096;

// One end. Not thread safe. Errors are UNAVAILABLE: the other end has gone.
class FrameSocket {
 public:
  explicit FrameSocket(int fd) : fd_(fd) {}

  absl::Status Send(FrameType type, std::span<const uint8_t> payload = {}) const;
  template <typename Payload>
  absl::Status SendStruct(FrameType type, const Payload& payload) const {
    return Send(type, {reinterpret_cast<const uint8_t*>(&payload), sizeof(payload)});
  }
  // Whether there are bytes, or the end, to be received. Waits for them, but no longer than this.
  bool IsReadable(absl::Duration patience) const;
  absl::StatusOr<FrameHeader> ReceiveHeader() const;
  // The payload of the first frame. FAILED_PRECONDITION, naming both versions, when the other end
  // is of another build.
  absl::StatusOr<OpenPayload> ReceiveOpen(const FrameHeader& frame) const;
  // Fills `dst`, a payload or a part of it.
  absl::Status Receive(std::span<uint8_t> dst) const;
  template <typename Payload>
  absl::StatusOr<Payload> ReceiveStruct() const {
    Payload payload;
    absl::Status status = Receive({reinterpret_cast<uint8_t*>(&payload), sizeof(payload)});
    if (!status.ok()) return status;
    return payload;
  }

 private:
  const int fd_;
};

// Rows of an image in one frame.
inline int RowsOfFrame(const ImageSpec& spec) {
  return static_cast<int>(std::max<size_t>(kMaxRowsPayload / spec.row_bytes(), 1));
}

}  // namespace upscaled::server
