// Animated PNG, frame by frame: each is written as a PNG file of its own, whose chunks become the
// animation's. Source: PNG specification (third edition), section 11.3.6.
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/frame_delta.h"
#include "engine/image/memory_io.h"
#include "engine/image/png_chunk.h"
#include "engine/image/png_metadata.h"

namespace upscaled {
namespace {

// `delay` with both numbers below 2^16, as PNG holds them. Sources state tenths, hundredths or
// thousandths if a number is larger.
FrameDelay ShortDelay(FrameDelay delay) {
  while (delay.numerator > UINT16_MAX && delay.denominator % 10 == 0) {
    delay.numerator = (delay.numerator + 5) / 10;
    delay.denominator /= 10;
  }
  delay.numerator = std::min<uint32_t>(delay.numerator, UINT16_MAX);
  delay.denominator = std::min<uint32_t>(delay.denominator, UINT16_MAX);
  return delay;
}

class ApngEncoder final : public ImageEncoder, private ByteSink {
 public:
  ApngEncoder(const EncodeOptions& options, const ImageSpec& spec, const ImageMetadata& metadata,
              ByteSink& sink)
      : options_(options),
        animation_(*options.animation),
        spec_(spec),
        metadata_(metadata),
        sink_(sink),
        delta_(spec) {
    options_.animation.reset();  // of the files of single frames
  }

  absl::Status BeginFrame(FrameDelay delay) override {
    if (frames_begun_ > 0) RETURN_IF_ERROR(WriteFrame());
    ++frames_begun_;
    delay_ = delay;
    return absl::OkStatus();
  }
  absl::Status WriteRows(ImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, delta_.rows_added(), rows.spec));
    delta_.AddRows(rows);
    return absl::OkStatus();
  }
  void AddLateMetadata(ImageMetadata late) override { late_ = PngChunksOf(late); }
  absl::Status Finish() override;

 private:
  // Takes what the encoder of a frame writes: the signature, then a chunk at a time.
  absl::Status Write(std::span<const uint8_t> chunk) override;

  absl::Status WriteFrame();
  absl::Status WriteChunk(std::string_view type, std::span<const uint8_t> data);
  absl::Status WriteAnimationControl();
  absl::Status WriteFrameControl(const Rect& place);

  EncodeOptions options_;
  const Animation animation_;
  const ImageSpec spec_;
  const ImageMetadata metadata_;
  ByteSink& sink_;
  FrameDelta delta_;
  std::vector<PngChunk> late_;
  int frames_begun_ = 0, frames_written_ = 0;
  FrameDelay delay_;
  Rect place_;
  bool has_control_ = false;  // of the frame that is being written
  uint32_t sequence_ = 0;
};

absl::Status ApngEncoder::WriteChunk(std::string_view type, std::span<const uint8_t> data) {
  std::vector<uint8_t> chunk(kPngChunkHeadBytes);
  chunk.reserve(kPngChunkHeadBytes + data.size() + kPngChunkTailBytes);
  chunk.insert(chunk.end(), data.begin(), data.end());
  FinishPngChunk(type, chunk);
  return sink_.Write(chunk);
}

absl::Status ApngEncoder::WriteAnimationControl() {
  uint8_t control[8];
  StoreBe32(static_cast<uint32_t>(animation_.frames), control);
  StoreBe32(animation_.plays, control + 4);
  return WriteChunk("acTL", control);
}

absl::Status ApngEncoder::WriteFrameControl(const Rect& place) {
  const FrameDelay delay = ShortDelay(delay_);
  uint8_t control[26] = {};  // it stays, and replaces its place
  StoreBe32(sequence_++, control);
  StoreBe32(place.width, control + 4);
  StoreBe32(place.height, control + 8);
  StoreBe32(place.x, control + 12);
  StoreBe32(place.y, control + 16);
  StoreBe32(delay.numerator << 16 | delay.denominator, control + 20);
  return WriteChunk("fcTL", control);
}

absl::Status ApngEncoder::Write(std::span<const uint8_t> chunk) {
  const std::string_view type(reinterpret_cast<const char*>(&chunk[4]), 4);
  const bool is_first = frames_written_ == 0, is_data = type == "IDAT";
  if (is_data && !std::exchange(has_control_, true)) RETURN_IF_ERROR(WriteFrameControl(place_));
  if (is_data && !is_first) {
    const size_t bytes = chunk.size() - kPngChunkHeadBytes - kPngChunkTailBytes;
    std::vector<uint8_t> data(4);
    StoreBe32(sequence_++, data.data());
    data.insert(data.end(), &chunk[kPngChunkHeadBytes], &chunk[kPngChunkHeadBytes] + bytes);
    return WriteChunk("fdAT", data);
  }
  if (!is_first || type == "IEND") return absl::OkStatus();
  RETURN_IF_ERROR(sink_.Write(chunk));
  return type == "IHDR" ? WriteAnimationControl() : absl::OkStatus();
}

absl::Status ApngEncoder::WriteFrame() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, delta_.rows_added()));
  place_ = delta_.Changed(/*step_px=*/1);
  has_control_ = false;
  const ImageView part = delta_.frame().Crop(place_);
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageEncoder> encoder,
                   CreatePngEncoder(options_, part.spec,
                                    frames_written_ == 0 ? metadata_ : ImageMetadata(), *this,
                                    /*cancellation=*/nullptr));
  RETURN_IF_ERROR(encoder->WriteRows(part));
  RETURN_IF_ERROR(encoder->Finish());
  ++frames_written_;
  delta_.Advance();
  return absl::OkStatus();
}

absl::Status ApngEncoder::Finish() {
  if (frames_begun_ != animation_.frames)
    return absl::FailedPreconditionError(
        absl::StrCat("frame ", frames_begun_, " of ", animation_.frames, " was the last one"));
  RETURN_IF_ERROR(WriteFrame());
  for (const PngChunk& chunk : late_) RETURN_IF_ERROR(WriteChunk(chunk.type, AsBytes(chunk.data)));
  return WriteChunk("IEND", {});
}

}  // namespace

size_t ApngEncoderBytes(const EncodeOptions& options, const ImageSpec& spec) {
  constexpr size_t kChunkCopies = 1 << 20;
  return PngEncoderBytes(options, spec) + FrameDelta::Bytes(spec) + kChunkCopies;
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateApngEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink,
                                                                const Cancellation*) {
  return std::make_unique<ApngEncoder>(options, spec, metadata, sink);
}

}  // namespace upscaled
