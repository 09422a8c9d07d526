// Animated PNG, frame by frame: each is written as a PNG file of its own. The file's chunks become
// the animation's. Source: PNG specification (third edition), section 11.3.6.
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/image/animation_encoder.h"
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

class ApngEncoder final : public AnimationEncoder, private ByteSink {
 public:
  ApngEncoder(const EncodeOptions& options, const ImageSpec& spec, const ImageMetadata& metadata,
              ByteSink& sink)
      : AnimationEncoder(options, spec, /*step_px=*/1), metadata_(metadata), sink_(sink) {}

  void AddLateMetadata(ImageMetadata late) override { late_ = PngChunksOf(late); }

 private:
  absl::Status AddFrame(FrameDelay delay, const Rect& place, ImageView part) override;
  absl::Status WriteEnd() override;
  // Takes the bytes of a frame's encoder: the signature, then a chunk at a time.
  absl::Status Write(std::span<const uint8_t> chunk) override;

  absl::Status WriteChunk(std::string_view type, std::span<const uint8_t> data);
  absl::Status WriteAnimationControl();
  absl::Status WriteFrameControl();

  const ImageMetadata metadata_;
  ByteSink& sink_;
  std::vector<PngChunk> late_;
  int frames_written_ = 0;
  // The frame being written.
  FrameDelay delay_;
  Rect place_;
  bool has_control_ = false;
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
  StoreBe32(static_cast<uint32_t>(animation().frames), control);
  StoreBe32(animation().plays, control + 4);
  return WriteChunk("acTL", control);
}

absl::Status ApngEncoder::WriteFrameControl() {
  const FrameDelay delay = ShortDelay(delay_);
  uint8_t control[26] = {};  // it stays, and replaces its place
  StoreBe32(sequence_++, control);
  StoreBe32(place_.width, control + 4);
  StoreBe32(place_.height, control + 8);
  StoreBe32(place_.x, control + 12);
  StoreBe32(place_.y, control + 16);
  StoreBe32(delay.numerator << 16 | delay.denominator, control + 20);
  return WriteChunk("fcTL", control);
}

absl::Status ApngEncoder::Write(std::span<const uint8_t> chunk) {
  const std::string_view type(reinterpret_cast<const char*>(&chunk[4]), 4);
  const bool is_first = frames_written_ == 0, is_data = type == "IDAT";
  if (is_data && !std::exchange(has_control_, true)) RETURN_IF_ERROR(WriteFrameControl());
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

absl::Status ApngEncoder::AddFrame(FrameDelay delay, const Rect& place, ImageView part) {
  delay_ = delay;
  place_ = place;
  has_control_ = false;
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageEncoder> encoder,
                   CreatePngEncoder(frame_options(), part.spec,
                                    frames_written_ == 0 ? metadata_ : ImageMetadata(), *this,
                                    /*cancellation=*/nullptr));
  RETURN_IF_ERROR(encoder->WriteRows(part));
  RETURN_IF_ERROR(encoder->Finish());
  ++frames_written_;
  return absl::OkStatus();
}

absl::Status ApngEncoder::WriteEnd() {
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
