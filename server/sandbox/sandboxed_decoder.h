// The server's end of one image at a worker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "engine/image/codec.h"
#include "server/base/decode_account.h"
#include "server/sandbox/decode_protocol.h"
#include "server/sandbox/decode_turns.h"
#include "server/sandbox/image_notes.h"
#include "server/sandbox/worker_process.h"

namespace upscaled::server {

// Trusts no word of the worker: sizes are the header's, pixels are just pixels. The worker computes
// only in its turns: from a question of the server's until its answer begins.
class SandboxedDecoder final : public ImageDecoder {
 public:
  // All turns of an image together. Images of 100 megapixels decode in some ten seconds.
  static constexpr absl::Duration kMaxTime = absl::Minutes(2);

  // `source`, `limits`, `cancellation` (may be null), `turns`, the account's `cpu_time` and
  // `crashes` (a count of crashed workers) must outlive it.
  SandboxedDecoder(WorkerProcess worker, const ImageHeader& header, ByteSource& source,
                   const DecodeLimits& limits, Cancellation* cancellation, DecodeTurns& turns,
                   const DecodeAccount& account, std::atomic<int64_t>& crashes,
                   absl::Duration max_time = kMaxTime);
  ~SandboxedDecoder() override;

  // Before all else: reads up to the first pixel. UNAVAILABLE: the worker was gone before it asked
  // for the image. INVALID_ARGUMENT here and from ReadRows: also when it takes too long.
  absl::Status Open();

  bool has_sent_input() const { return has_sent_input_; }

  absl::StatusOr<FrameDelay> NextFrame() override;
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  // At most RowsOfFrame.
  absl::Status ReadFrameOfRows(MutableImageView rows);
  // Gives the worker its requested input until it sends a frame of the type `answer`; `frame` may
  // be one. Returns the size of the answer's payload, or the worker's error.
  absl::StatusOr<size_t> Answer(absl::StatusOr<FrameHeader> frame, FrameType answer);
  // Sends a frame in a turn of the worker's. The turn ends with the header of the next one.
  absl::StatusOr<FrameHeader> Exchange(FrameType type, std::span<const uint8_t> payload = {});
  absl::Status AwaitAnswer();
  // Returns some of the image; empty: its end.
  absl::StatusOr<std::span<const uint8_t>> ReadInput();
  // With metadata of at most `max_bytes`, in a payload of `bytes`.
  absl::StatusOr<ImageNotes> ReceiveNotes(size_t bytes, size_t max_bytes);
  absl::Status ReceiveFailure(size_t payload_bytes);
  // `status`, or its reason if the worker has gone.
  absl::Status Explain(absl::Status status);

  WorkerProcess worker_;
  const FrameSocket socket_;
  DecodeTurns::Place place_;
  absl::Duration* const cpu_time_;
  const absl::Duration max_time_;
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
  Cancellation::Registration on_cancel_;  // last: it uses the socket and the place
};

}  // namespace upscaled::server
