// The server's end of one image that a worker decodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/cancellation.h"
#include "engine/image/codec.h"
#include "server/sandbox/decode_protocol.h"
#include "server/sandbox/image_notes.h"
#include "server/sandbox/worker_process.h"

namespace upscaled::server {

// Trusts nothing that the worker says: sizes are the header's, pixels are just pixels.
class SandboxedDecoder final : public ImageDecoder {
 public:
  // `source`, `limits`, `cancellation` (may be null) and `crashes`, which counts workers that
  // crash, must outlive it.
  SandboxedDecoder(WorkerProcess worker, const ImageHeader& header, ByteSource& source,
                   const DecodeLimits& limits, Cancellation* cancellation,
                   std::atomic<int64_t>& crashes);

  // Before all else: reads up to the first pixel. UNAVAILABLE: the worker was gone before it asked
  // for the image.
  absl::Status Open();

  bool has_sent_input() const { return has_sent_input_; }

  absl::StatusOr<FrameDelay> NextFrame() override;
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  // At most RowsOfFrame.
  absl::Status ReadFrameOfRows(MutableImageView rows);
  // Gives the worker the input that it asks for until it sends a frame of this type; returns its
  // payload's size, or the worker's error.
  absl::StatusOr<size_t> Await(FrameType type);
  absl::Status SendInput();
  // With metadata of at most `max_bytes`.
  absl::StatusOr<ImageNotes> ReceiveNotes(FrameType type, size_t max_bytes);
  absl::Status ReceiveFailure(size_t payload_bytes);
  // `status`, or what it means when it says that the worker has gone.
  absl::Status Explain(absl::Status status);

  WorkerProcess worker_;
  const FrameSocket socket_;
  ByteSource& source_;
  const DecodeLimits& limits_;
  Cancellation* const cancellation_;
  std::atomic<int64_t>& crashes_;
  bool has_sent_input_ = false;
  int reads_after_end_ = 0;
  int frames_left_ = header().animation.has_value() ? header().animation->frames : 0;
  int rows_left_ = frames_left_ > 0 ? 0 : spec().height_px;
  bool has_end_ = false;
  std::vector<uint8_t> buffer_;           // a frame
  Cancellation::Registration on_cancel_;  // last: it uses the socket
};

}  // namespace upscaled::server
