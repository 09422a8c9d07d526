#include "server/sandbox/sandboxed_decoder.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// A decoder may look for more a few times after the end of its input.
constexpr int kMaxReadsAfterEnd = 1000;
constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

absl::Status BrokenProtocol() {
  return MakeError(absl::StatusCode::kInternal, ErrorReason::kInternal,
                   "the decoder's sandbox sent what it must not");
}

template <typename Payload>
std::span<const uint8_t> BytesOfPayload(const Payload& payload) {
  return {reinterpret_cast<const uint8_t*>(&payload), sizeof(payload)};
}

absl::Status TooSlow(absl::Duration limit) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage,
                   absl::StrCat("decoding the image takes longer than ",
                                absl::FormatDuration(limit), ", the limit"));
}

// As if the worker had gone; Explain turns it into the reason.
absl::Status Cancelled() { return absl::UnavailableError("cancelled"); }

// The worker's own socket: errors of the client's input are of other codes or texts, and end the
// image as they are.
bool IsGone(const absl::Status& status) { return absl::IsUnavailable(status); }

}  // namespace

SandboxedDecoder::SandboxedDecoder(WorkerProcess worker, const ImageHeader& header,
                                   ByteSource& source, const DecodeLimits& limits,
                                   Cancellation* cancellation, DecodeTurns& turns,
                                   const DecodeAccount& account, std::atomic<int64_t>& crashes,
                                   absl::Duration max_time)
    : ImageDecoder(header),
      worker_(std::move(worker)),
      socket_(worker_.socket()),
      place_(turns, account.client, account.weight),
      cpu_time_(account.cpu_time),
      max_time_(max_time),
      source_(source),
      limits_(limits),
      cancellation_(cancellation),
      crashes_(crashes) {
  if (cancellation == nullptr) return;
  // Wakes the thread waiting for the worker, however busy the worker is.
  on_cancel_ = cancellation->OnCancel([this] {
    shutdown(worker_.socket(), SHUT_RDWR);
    place_.Cancel();
  });
}

SandboxedDecoder::~SandboxedDecoder() {
  const absl::Duration cpu_time = worker_.Stop();
  if (cpu_time_ != nullptr) *cpu_time_ += cpu_time;
}

absl::Status SandboxedDecoder::Open() {
  const OpenPayload open{.max_pixels = limits_.max_pixels,
                         .max_metadata_bytes = limits_.max_metadata_bytes,
                         .memory_bytes = header().decoder_bytes + header().prefix_bytes +
                                         2 * header().metadata_bytes + kMaxBytesPayload +
                                         RowsOfFrame(header().spec) * header().spec.row_bytes(),
                         .max_side_px = limits_.max_side_px,
                         .max_jpeg_scans = limits_.max_jpeg_scans,
                         .max_frames = limits_.max_frames,
                         .frame = limits_.frame,
                         .warns_of_frames = limits_.warns_of_frames,
                         .fill_damage = limits_.fill_damage,
                         .spec = header().spec};
  ASSIGN_OR_RETURN(const size_t bytes,
                   Answer(Exchange(FrameType::kOpen, BytesOfPayload(open)), FrameType::kOpened));
  ASSIGN_OR_RETURN(ImageNotes notes, ReceiveNotes(bytes, header().metadata_bytes));
  metadata_ = std::move(notes.metadata);
  warnings_ = std::move(notes.warnings);
  return absl::OkStatus();
}

absl::StatusOr<ImageNotes> SandboxedDecoder::ReceiveNotes(size_t bytes, size_t max_bytes) {
  if (bytes > max_bytes + kMaxNotesOverhead) return BrokenProtocol();
  std::vector<uint8_t> payload(bytes);
  RETURN_IF_ERROR(Explain(socket_.Receive(payload)));
  std::optional<ImageNotes> notes = ParseNotes(payload);
  if (!notes.has_value() || BytesOf(notes->metadata) > max_bytes) return BrokenProtocol();
  return *std::move(notes);
}

absl::StatusOr<FrameDelay> SandboxedDecoder::NextFrame() {
  if (!header().animation.has_value() || frames_left_ == 0 || rows_left_ > 0)
    return absl::FailedPreconditionError(
        absl::StrCat(frames_left_, " frames and ", rows_left_, " rows are left"));
  FrameDelay delay;
  ASSIGN_OR_RETURN(const size_t bytes, Answer(Exchange(FrameType::kNextFrame), FrameType::kFrame));
  if (bytes != sizeof(delay)) return BrokenProtocol();
  RETURN_IF_ERROR(Explain(socket_.Receive({reinterpret_cast<uint8_t*>(&delay), bytes})));
  if (delay.denominator == 0) return BrokenProtocol();
  --frames_left_;
  rows_left_ = spec().height_px;
  return delay;
}

absl::Status SandboxedDecoder::ReadRows(MutableImageView rows) {
  const int max_rows = RowsOfFrame(header().spec);
  for (int y = 0; y < rows.height_px(); y += max_rows) {
    const int count = std::min(max_rows, rows.height_px() - y);
    RETURN_IF_ERROR(ReadFrameOfRows(rows.Crop({0, y, rows.width_px(), count})));
  }
  rows_left_ -= rows.height_px();
  if (rows_left_ > 0 || frames_left_ > 0 || std::exchange(has_end_, true)) return absl::OkStatus();
  // Comes with the last rows, unasked.
  ASSIGN_OR_RETURN(const size_t bytes, Answer(socket_.ReceiveHeader(), FrameType::kEnd));
  ASSIGN_OR_RETURN(ImageNotes notes, ReceiveNotes(bytes, kMaxLateMetadataBytes));
  late_metadata_ = std::move(notes.metadata);
  std::ranges::move(notes.warnings, std::back_inserter(warnings_));
  return absl::OkStatus();
}

absl::Status SandboxedDecoder::ReadFrameOfRows(MutableImageView rows) {
  const ReadRowsPayload wanted{.rows = rows.height_px()};
  ASSIGN_OR_RETURN(
      const size_t payload_bytes,
      Answer(Exchange(FrameType::kReadRows, BytesOfPayload(wanted)), FrameType::kRows));
  const size_t row_bytes = header().spec.row_bytes();
  if (payload_bytes != row_bytes * rows.height_px()) return BrokenProtocol();
  buffer_.resize(payload_bytes);
  RETURN_IF_ERROR(Explain(socket_.Receive(buffer_)));
  for (int y = 0; y < rows.height_px(); ++y) {
    std::memcpy(rows.row(y), buffer_.data() + y * row_bytes, row_bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> SandboxedDecoder::Answer(absl::StatusOr<FrameHeader> frame,
                                                FrameType answer) {
  while (true) {
    if (!frame.ok()) return Explain(frame.status());
    if (frame->type == answer) return frame->payload_bytes;
    if (frame->type == FrameType::kFailed) return ReceiveFailure(frame->payload_bytes);
    if (frame->type != FrameType::kNeedBytes || frame->payload_bytes != 0) {
      return BrokenProtocol();
    }
    ASSIGN_OR_RETURN(const std::span<const uint8_t> input, ReadInput());
    frame = Exchange(FrameType::kBytes, input);
  }
}

absl::StatusOr<FrameHeader> SandboxedDecoder::Exchange(FrameType type,
                                                       std::span<const uint8_t> payload) {
  if (!place_.Begin()) return Cancelled();
  const absl::Cleanup end_turn = [this] { place_.End(); };
  RETURN_IF_ERROR(socket_.Send(type, payload));
  RETURN_IF_ERROR(AwaitAnswer());
  return socket_.ReceiveHeader();
}

absl::Status SandboxedDecoder::AwaitAnswer() {
  while (!socket_.IsReadable(DecodeTurns::kSlice)) {
    const bool must_yield = place_.MustYield();
    if (place_.time() > max_time_) return TooSlow(max_time_);
    if (!must_yield) continue;
    worker_.Pause();
    place_.End();
    if (!place_.Begin()) return Cancelled();
    worker_.Resume();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const uint8_t>> SandboxedDecoder::ReadInput() {
  has_sent_input_ = true;
  buffer_.resize(kMaxBytesPayload);
  ASSIGN_OR_RETURN(const size_t count, source_.Read(buffer_));
  if (count == 0 && ++reads_after_end_ > kMaxReadsAfterEnd) return BrokenProtocol();
  return std::span(buffer_).first(count);
}

absl::Status SandboxedDecoder::ReceiveFailure(size_t payload_bytes) {
  FailedPayload failed;
  if (payload_bytes < sizeof(failed) || payload_bytes > sizeof(failed) + kMaxFailureMessage) {
    return BrokenProtocol();
  }
  std::string payload(payload_bytes, '\0');
  RETURN_IF_ERROR(
      Explain(socket_.Receive({reinterpret_cast<uint8_t*>(payload.data()), payload.size()})));
  std::memcpy(&failed, payload.data(), sizeof(failed));
  std::string message = payload.substr(sizeof(failed));
  if (failed.limit >= 0 && failed.limit <= static_cast<int32_t>(DecodeLimit::kFrames) &&
      limits_.explain) {
    return limits_.explain(static_cast<DecodeLimit>(failed.limit), failed.value,
                           std::move(message));
  }
  switch (const auto code = static_cast<absl::StatusCode>(failed.code)) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return absl::Status(code, message);
    default:
      return MakeError(absl::StatusCode::kInternal, ErrorReason::kInternal, message);
  }
}

absl::Status SandboxedDecoder::Explain(absl::Status status) {
  if (!IsGone(status)) return status;
  if (cancellation_ != nullptr && cancellation_->IsCancelled()) return cancellation_->status();
  if (!has_sent_input_) return status;
  const WorkerProcess::End end = worker_.AwaitEnd();
  if (end.killed) {  // which it cannot do itself
    return MakeOverloaded("the image's decoder was killed; the machine seems to be out of memory",
                          kMemoryRetryDelay);
  }
  ++crashes_;
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage,
                   absl::StrCat("the image's decoder crashed in its sandbox: ", end.text));
}

}  // namespace upscaled::server
