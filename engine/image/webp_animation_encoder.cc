// Animated WebP, frame by frame: each is written as a WebP file of its own. Its image becomes one
// of the animation's. Source: WebP container specification, "Animation".
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/animation_encoder.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/frame_delta.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

constexpr size_t kWebpFileHead = 12, kWebpChunkHead = 8, kFrameHead = 16;
constexpr int64_t kMaxDelayMs = (1 << 24) - 1;

std::string LittleEndian(int64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string Chunk(std::string_view type, std::string_view data) {
  std::string chunk =
      absl::StrCat(std::string(type), LittleEndian(data.size(), 4), std::string(data));
  if (data.size() % 2 == 1) chunk.push_back(0);
  return chunk;
}

// The chunks of a file for its image.
std::string ImageChunksOf(std::string_view file) {
  std::string chunks;
  for (size_t at = kWebpFileHead; at + kWebpChunkHead <= file.size();) {
    const size_t length = LoadLe32(AsBytes(file.substr(at + 4)).data());
    const std::string_view chunk = file.substr(at, kWebpChunkHead + length + (length & 1));
    const std::string_view type = chunk.substr(0, 4);
    if (type == "ALPH" || type == "VP8 " || type == "VP8L") chunks.append(chunk);
    at += chunk.size();
  }
  return chunks;
}

// A frame, written as one chunk ANMF for each of its times, since a chunk states 16,777 s at most.
struct TimedFrame {
  Rect place;
  std::string image;  // chunks
  std::vector<int64_t> times_ms = {};

  size_t bytes() const { return times_ms.size() * (kWebpChunkHead + kFrameHead + image.size()); }
  absl::Status Write(ByteSink& sink) const {
    constexpr char kReplacesAndStays = 2;
    for (const int64_t time_ms : times_ms) {
      const std::string head =
          absl::StrCat("ANMF", LittleEndian(kFrameHead + image.size(), 4),
                       LittleEndian(place.x / 2, 3), LittleEndian(place.y / 2, 3),
                       LittleEndian(place.width - 1, 3), LittleEndian(place.height - 1, 3),
                       LittleEndian(time_ms, 3), std::string(1, kReplacesAndStays));
      RETURN_IF_ERROR(WriteInPieces(AsBytes(head), sink));
      RETURN_IF_ERROR(WriteInPieces(AsBytes(image), sink));
    }
    return absl::OkStatus();
  }
};

class WebpAnimationEncoder final : public AnimationEncoder {
 public:
  WebpAnimationEncoder(const EncodeOptions& options, const ImageSpec& spec,
                       const ImageMetadata& metadata, ByteSink& sink,
                       const Cancellation* cancellation)
      : AnimationEncoder(options, spec, /*step_px=*/2),
        metadata_(metadata),
        sink_(sink),
        cancellation_(cancellation) {}

  void AddLateMetadata(ImageMetadata late) override { AddMissing(std::move(late), metadata_); }

 private:
  absl::Status AddFrame(FrameDelay delay, const Rect& place, ImageView part) override;
  absl::Status WriteEnd() override;

  ImageMetadata metadata_;
  ByteSink& sink_;
  const Cancellation* const cancellation_;
  double shown_s_ = 0;              // by all frames, as their source states it
  int64_t shown_ms_ = 0;            // by those that are in frames_
  std::vector<TimedFrame> frames_;  // held, because the file begins with their size
};

absl::Status WebpAnimationEncoder::AddFrame(FrameDelay delay, const Rect& place, ImageView part) {
  StringSink file;
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageEncoder> encoder,
                   CreateWebpEncoder(frame_options(), part.spec, {}, file, cancellation_));
  RETURN_IF_ERROR(encoder->WriteRows(part));
  RETURN_IF_ERROR(encoder->Finish());
  shown_s_ += static_cast<double>(delay.numerator) / delay.denominator;
  // Ends are rounded: no error adds up.
  int64_t delay_ms = std::llround(shown_s_ * 1000) - shown_ms_;
  shown_ms_ += delay_ms;
  TimedFrame frame{.place = place, .image = ImageChunksOf(file.bytes())};
  do {
    frame.times_ms.push_back(std::min(delay_ms, kMaxDelayMs));
    delay_ms -= frame.times_ms.back();
  } while (delay_ms > 0);
  frames_.push_back(std::move(frame));
  return absl::OkStatus();
}

absl::Status WebpAnimationEncoder::WriteEnd() {
  const ImageMetadata& m = metadata_;
  const int flags = 0x02 | (spec().has_alpha() ? 0x10 : 0) | (m.icc_profile.empty() ? 0 : 0x20) |
                    (m.exif.empty() ? 0 : 0x08) | (m.xmp.empty() ? 0 : 0x04);
  std::string head =
      Chunk("VP8X", absl::StrCat(LittleEndian(flags, 4), LittleEndian(spec().width_px - 1, 3),
                                 LittleEndian(spec().height_px - 1, 3)));
  if (!m.icc_profile.empty()) head += Chunk("ICCP", m.icc_profile);
  constexpr int64_t kTransparent = 0;
  const uint32_t plays = std::min<uint32_t>(animation().plays, UINT16_MAX);
  head += Chunk("ANIM", LittleEndian(kTransparent, 4) + LittleEndian(plays, 2));
  std::string tail = m.exif.empty() ? "" : Chunk("EXIF", m.exif);
  if (!m.xmp.empty()) tail += Chunk("XMP ", m.xmp);

  size_t bytes = 4 + head.size() + tail.size();
  for (const TimedFrame& frame : frames_) bytes += frame.bytes();
  if (bytes > UINT32_MAX - 1)
    return absl::ResourceExhaustedError(
        absl::StrCat("WebP: the animation has ", bytes, " bytes; the format holds 4294967294"));
  head = absl::StrCat("RIFF", LittleEndian(bytes, 4), "WEBP", head);
  RETURN_IF_ERROR(WriteInPieces(AsBytes(head), sink_));
  for (const TimedFrame& frame : frames_) RETURN_IF_ERROR(frame.Write(sink_));
  return WriteInPieces(AsBytes(tail), sink_);
}

}  // namespace

size_t WebpAnimationEncoderBytes(const EncodeOptions& options, const ImageSpec& spec) {
  // All frames are held until the size of the file is known, since the size comes first. At most,
  // of noise: 4 bytes a pixel lossless, 2 lossy and 1 of its alpha.
  constexpr size_t kBytesPerFrame = 1024;
  const size_t pixel_bytes =
      options.quality == kLosslessWebpQuality ? 4 : (spec.has_alpha() ? 3 : 2);
  const size_t frame = pixel_bytes * static_cast<size_t>(spec.size().Area()) + kBytesPerFrame;
  return WebpEncoderBytes(options, spec) + FrameDelta::Bytes(spec) +
         frame * static_cast<size_t>(options.animation->frames);
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateWebpAnimationEncoder(
    const EncodeOptions& options, const ImageSpec& spec, const ImageMetadata& metadata,
    ByteSink& sink, const Cancellation* cancellation) {
  return std::make_unique<WebpAnimationEncoder>(options, spec, metadata, sink, cancellation);
}

}  // namespace upscaled
