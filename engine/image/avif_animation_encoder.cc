// Animated AVIF by libavif: frames refer to those before them, so each goes to the encoder whole.
// Sources: AV1 Image File Format, section 5 (image sequences); ISO/IEC 14496-12, sections 8.6.6
// (elst) and 8.3.2 (tkhd).
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/animation_encoder.h"
#include "engine/image/avif_frame.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/heif_boxes.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

// Frames of GIF (1/100 s), WebP (1/1000 s) and most films last a whole number of ticks. A frame of
// APNG (65,535 s at most) lasts no more ticks than the file can state.
constexpr int64_t kTicksPerSecond = 60'000;
constexpr size_t kBoxHead = 8;

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string AvifBox(std::string_view type, std::string_view payload) {
  return absl::StrCat(BigEndian(kBoxHead + payload.size(), 4), std::string(type),
                      std::string(payload));
}

// A track to be played `plays` times, since libavif's file leaves this open.
std::string RepeatTrack(BoxReader track, uint32_t plays) {
  // Its header, version 1: times of 8 bytes each, two numbers of 4, and how long it is shown.
  constexpr size_t kDurationAt = 4 + 8 + 8 + 4 + 4, kDurationBytes = 8;
  std::string repeated;
  while (const auto box = track.TakeBox()) {
    std::string payload(box->payload.begin(), box->payload.end());
    const bool is_head = box->type == BoxType("tkhd") && !payload.empty() && payload[0] == 1 &&
                         payload.size() >= kDurationAt + kDurationBytes;
    uint64_t duration = 0;
    if (is_head) {
      for (size_t i = 0; i < kDurationBytes; ++i)
        duration = duration << 8 | static_cast<uint8_t>(payload[kDurationAt + i]);
      payload.replace(kDurationAt, kDurationBytes, BigEndian(duration * plays, kDurationBytes));
    }
    repeated += AvifBox(BoxName(box->type), payload);
    if (!is_head) continue;
    // One edit of version 1, repeated: all of the media, at its own rate.
    const std::string edit =
        absl::StrCat(BigEndian(0x01000001, 4), BigEndian(1, 4), BigEndian(duration, 8),
                     BigEndian(0, 8), BigEndian(0x00010000, 4));
    repeated += AvifBox("edts", AvifBox("elst", edit));
  }
  return repeated;
}

// Writes `file`, played `plays` times. Its box "moov" grows, so it moves to the end, and a free one
// of its size takes its place: offsets of the data stay true.
absl::Status WriteRepeated(std::span<const uint8_t> file, uint32_t plays, ByteSink& sink) {
  std::string longer;
  BoxReader boxes(file);
  while (const auto box = boxes.TakeBox()) {
    const auto end = static_cast<size_t>(box->payload.data() + box->payload.size() - file.data());
    const size_t begin = end - box->payload.size() - kBoxHead;
    if (box->type != BoxType("moov")) {
      RETURN_IF_ERROR(WriteInPieces(file.subspan(begin, end - begin), sink));
      continue;
    }
    BoxReader inner(box->payload);
    while (const auto part = inner.TakeBox())
      longer += AvifBox(BoxName(part->type),
                        part->type == BoxType("trak")
                            ? RepeatTrack(BoxReader(part->payload), plays)
                            : std::string(part->payload.begin(), part->payload.end()));
    longer = AvifBox("moov", longer);
    RETURN_IF_ERROR(
        WriteInPieces(AsBytes(AvifBox("free", std::string(box->payload.size(), '\0'))), sink));
  }
  return WriteInPieces(AsBytes(longer), sink);
}

class AvifAnimationEncoder final : public AnimationEncoder {
 public:
  AvifAnimationEncoder(const EncodeOptions& options, const ImageSpec& spec,
                       const ImageMetadata& metadata, ByteSink& sink,
                       const Cancellation* cancellation)
      : AnimationEncoder(options, spec, kWholeFrames),
        metadata_(metadata),
        sink_(sink),
        cancellation_(cancellation) {}

 private:
  absl::Status AddFrame(FrameDelay delay, const Rect& place, ImageView part) override;
  absl::Status WriteEnd() override;

  const ImageMetadata metadata_;
  ByteSink& sink_;
  const Cancellation* const cancellation_;
  AvifEncoderHandle encoder_;
  double shown_s_ = 0;       // by all frames, as their source states it
  int64_t shown_ticks_ = 0;  // by those that the encoder has
};

absl::Status AvifAnimationEncoder::AddFrame(FrameDelay delay, const Rect&, ImageView part) {
  if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
  const int quality = frame_options().quality;
  if (encoder_ == nullptr) {
    ASSIGN_OR_RETURN(encoder_, MakeAvifEncoder(quality));
    encoder_->timescale = kTicksPerSecond;
  }
  ASSIGN_OR_RETURN(const AvifImage image, MakeAvifImage(part, quality, metadata_));
  shown_s_ += static_cast<double>(delay.numerator) / delay.denominator;
  // Ends are rounded: no error adds up. A frame is shown for one tick at least.
  const int64_t ticks =
      std::max<int64_t>(std::llround(shown_s_ * kTicksPerSecond) - shown_ticks_, 1);
  if (ticks > UINT32_MAX)
    return absl::InvalidArgumentError(absl::StrCat("AVIF: a frame is shown for ",
                                                   ticks / kTicksPerSecond, " s; the limit is ",
                                                   UINT32_MAX / kTicksPerSecond, " s"));
  shown_ticks_ += ticks;
  // Frames with references to others lose samples at the right and the bottom, even if none may be
  // lost (libaom 3.6, real time, blocks with one visible pixel).
  const avifAddImageFlags flags = quality == kLosslessAvifQuality
                                      ? AVIF_ADD_IMAGE_FLAG_FORCE_KEYFRAME
                                      : AVIF_ADD_IMAGE_FLAG_NONE;
  const avifResult result =
      avifEncoderAddImage(encoder_.get(), image.get(), static_cast<uint64_t>(ticks), flags);
  return result == AVIF_RESULT_OK ? absl::OkStatus() : AvifEncodingFault(result);
}

absl::Status AvifAnimationEncoder::WriteEnd() {
  avifRWData encoded = AVIF_DATA_EMPTY;
  const avifResult result = avifEncoderFinish(encoder_.get(), &encoded);
  absl::Status status = result == AVIF_RESULT_OK ? absl::OkStatus() : AvifEncodingFault(result);
  const std::span<const uint8_t> file(encoded.data, encoded.size);
  // Without a statement files play without end.
  if (status.ok())
    status = animation().plays == 0 ? WriteInPieces(file, sink_)
                                    : WriteRepeated(file, animation().plays, sink_);
  avifRWDataFree(&encoded);
  return status;
}

}  // namespace

size_t AvifAnimationEncoderBytes(const EncodeOptions& options, const ImageSpec& spec) {
  // All frames are held until the end, and written once more there. At most, of noise:
  // every byte of their samples, and a part of those where something may be lost.
  constexpr size_t kBytesPerFrame = 1024;
  const size_t frame = ImageBytes(spec) + kBytesPerFrame;
  return AvifEncoderBytes(options, spec) + FrameDelta::Bytes(spec) +
         2 * frame * static_cast<size_t>(options.animation->frames);
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateAvifAnimationEncoder(
    const EncodeOptions& options, const ImageSpec& spec, const ImageMetadata& metadata,
    ByteSink& sink, const Cancellation* cancellation) {
  return std::make_unique<AvifAnimationEncoder>(options, spec, metadata, sink, cancellation);
}

}  // namespace upscaled
