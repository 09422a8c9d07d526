#include "server/sandbox/decode_worker.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "server/sandbox/cage.h"
#include "server/sandbox/decode_protocol.h"
#include "server/sandbox/image_notes.h"

namespace upscaled::server {
namespace {

// The encoded image, asked of the server piece by piece.
class RemoteSource final : public ByteSource {
 public:
  explicit RemoteSource(const FrameSocket& socket) : socket_(socket) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    if (position_ == piece_.size()) {
      RETURN_IF_ERROR(socket_.Send(FrameType::kNeedBytes));
      ASSIGN_OR_RETURN(const FrameHeader frame, socket_.ReceiveHeader());
      piece_.resize(frame.payload_bytes);
      position_ = 0;
      RETURN_IF_ERROR(socket_.Receive(piece_));
    }
    const size_t count = std::min(dst.size(), piece_.size() - position_);
    if (count > 0) std::memcpy(dst.data(), piece_.data() + position_, count);
    position_ += count;
    return count;
  }

 private:
  const FrameSocket& socket_;
  std::vector<uint8_t> piece_;
  size_t position_ = 0;
};

class Worker {
 public:
  explicit Worker(int fd) : socket_(fd), source_(socket_) {}

  absl::Status Run() {
    absl::Status status;
    try {
      status = Decode();
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("the decoder is out of memory");
    }
    if (!status.ok()) Tell(status);
    return status;
  }

 private:
  absl::Status Decode() {
    ASSIGN_OR_RETURN(const FrameHeader frame, socket_.ReceiveHeader());
    if (frame.type != FrameType::kOpen) return absl::InternalError("the first frame opens nothing");
    ASSIGN_OR_RETURN(const OpenPayload open, socket_.ReceiveOpen(frame));
    RETURN_IF_ERROR(LockCage(open.memory_bytes));
    ASSIGN_OR_RETURN(decoder_, OpenImageDecoder(source_, LimitsOf(open)));
    if (decoder_->spec() != open.spec) {
      return absl::InternalError("the image differs from the one that was planned for");
    }
    RETURN_IF_ERROR(SendNotes(FrameType::kOpened, {decoder_->metadata(), decoder_->warnings()}));
    const auto told = static_cast<ptrdiff_t>(decoder_->warnings().size());
    RETURN_IF_ERROR(SendFrames(open.spec));
    const std::vector<std::string>& warnings = decoder_->warnings();
    return SendNotes(FrameType::kEnd,
                     {decoder_->late_metadata(), {warnings.begin() + told, warnings.end()}});
  }

  absl::Status SendNotes(FrameType type, const ImageNotes& notes) const {
    return socket_.Send(type, AsBytes(SerializeNotes(notes)));
  }

  DecodeLimits LimitsOf(const OpenPayload& open) {
    return {.max_pixels = open.max_pixels,
            .max_side_px = open.max_side_px,
            .max_metadata_bytes = open.max_metadata_bytes,
            .max_jpeg_scans = open.max_jpeg_scans,
            .max_frames = open.max_frames,
            .frame = open.frame,
            .warns_of_frames = open.warns_of_frames,
            .is_caged = true,
            .fill_damage = open.fill_damage,
            .explain = [this](DecodeLimit limit, int64_t value, std::string sentence) {
              failed_.limit = static_cast<int32_t>(limit);
              failed_.value = value;
              return absl::ResourceExhaustedError(sentence);
            }};
  }

  // The rows of the image, or of all frames.
  absl::Status SendFrames(const ImageSpec& spec) {
    if (!decoder_->header().animation.has_value()) return SendRows(spec);
    for (int left = decoder_->header().animation->frames; left > 0; --left) {
      ASSIGN_OR_RETURN(const FrameHeader frame, socket_.ReceiveHeader());
      if (frame.type != FrameType::kNextFrame) return absl::InternalError("no frame is asked for");
      ASSIGN_OR_RETURN(const FrameDelay delay, decoder_->NextFrame());
      RETURN_IF_ERROR(socket_.SendStruct(FrameType::kFrame, delay));
      RETURN_IF_ERROR(SendRows(spec));
    }
    return absl::OkStatus();
  }

  // As the server asks for them, until it goes.
  absl::Status SendRows(ImageSpec spec) {
    const int max_rows = RowsOfFrame(spec);
    int left = spec.height_px;
    Image rows;
    while (left > 0) {
      ASSIGN_OR_RETURN(const FrameHeader frame, socket_.ReceiveHeader());
      if (frame.type != FrameType::kReadRows) return absl::InternalError("no rows are asked for");
      ASSIGN_OR_RETURN(const auto asked, socket_.ReceiveStruct<ReadRowsPayload>());
      if (asked.rows < 1 || asked.rows > std::min(left, max_rows)) {
        return absl::InternalError("a number of rows is asked for that is not there");
      }
      spec.height_px = asked.rows;
      if (rows.spec() != spec) rows = Image(spec);
      RETURN_IF_ERROR(decoder_->ReadRows(rows.mutable_view()));
      RETURN_IF_ERROR(
          socket_.Send(FrameType::kRows, {rows.view().data, spec.row_bytes() * asked.rows}));
      left -= asked.rows;
    }
    return absl::OkStatus();
  }

  void Tell(const absl::Status& status) {
    failed_.code = static_cast<int32_t>(status.code());
    const absl::string_view message = status.message().substr(0, kMaxFailureMessage);
    std::string payload(reinterpret_cast<const char*>(&failed_), sizeof(failed_));
    payload.append(message.data(), message.size());
    (void)socket_.Send(FrameType::kFailed, AsBytes(payload));  // the server may be what has gone
  }

  const FrameSocket socket_;
  RemoteSource source_;
  FailedPayload failed_{.code = 0, .limit = -1, .value = 0};
  std::unique_ptr<ImageDecoder> decoder_;
};

}  // namespace

absl::Status ServeDecoder(int fd) { return Worker(fd).Run(); }

}  // namespace upscaled::server
