// Source: WebP container specification, "Animation".
#include "engine/image/webp_frames.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <webp/demux.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/endian.h"
#include "engine/image/exif.h"
#include "engine/image/memory_io.h"
#include "engine/image/orientation.h"
#include "engine/image/stored_image.h"
#include "engine/image/webp_header.h"
#include "engine/image/webp_lossless.h"

namespace upscaled {
namespace {

constexpr char kAnimatedWebp[] = "WebP";
constexpr size_t kRiffHeadBytes = 12, kChunkHeadBytes = 8, kVp8xPayloadBytes = 10;
constexpr size_t kAnimPayloadBytes = 6, kFrameHeadBytes = 16;
constexpr uint8_t kAnimatedFlag = 0x02, kAlphaBit = 0x10;
constexpr size_t kDemuxBytes = 4 << 20;  // libwebp's structures

struct WebpFrame {
  std::span<const uint8_t> chunks;  // behind ANMF's fields
  Size size;
};

struct WebpAnimation {
  Size canvas;
  Animation animation;
  std::vector<WebpFrame> frames;
  std::span<const uint8_t> icc_profile;
  size_t end = 0;  // of the chunks that are whole
  bool lossless = true, needs_alpha = false;
  std::vector<std::string> warnings;
};

std::string_view TypeAt(std::span<const uint8_t> chunk) {
  return {reinterpret_cast<const char*>(chunk.data()), 4};
}

// Whether any of a frame's chunks claims alpha. Notes whether it is lossy.
bool HasAlpha(const WebpFrame& frame, bool& lossless) {
  std::span<const uint8_t> rest = frame.chunks;
  bool alpha = false;
  while (rest.size() >= kChunkHeadBytes) {
    const size_t length = LoadLe32(&rest[4]);
    const std::span<const uint8_t> payload = rest.subspan(kChunkHeadBytes);
    if (TypeAt(rest) == "ALPH") alpha = true;
    if (TypeAt(rest) == "VP8 ") lossless = false;
    if (TypeAt(rest) == "VP8L" && payload.size() >= 5)
      alpha = alpha || (payload[4] & kAlphaBit) != 0;
    rest = payload.subspan(std::min(payload.size(), length + (length & 1)));
  }
  return alpha;
}

class WebpAnimationWalk {
 public:
  WebpAnimationWalk(std::span<const uint8_t> prefix, const DecodeLimits& limits)
      : file_(WithinWebpFile(prefix)), stated_bytes_(WebpFileBytes(prefix)), limits_(limits) {}

  // Whether the file's end was reached. The prefix holds VP8X.
  absl::StatusOr<bool> Run(bool is_whole);
  WebpAnimation& animation() { return animation_; }

 private:
  absl::Status AddFrame(std::span<const uint8_t> payload);
  absl::Status Conclude(bool cut_in_frame);

  const std::span<const uint8_t> file_;
  const size_t stated_bytes_;
  const DecodeLimits& limits_;
  WebpAnimation animation_;
  bool last_clears_ = false;
  int64_t shown_ms_ = 0;  // by all frames, which libwebp counts in an int
};

absl::StatusOr<bool> WebpAnimationWalk::Run(bool is_whole) {
  constexpr size_t kHeadBytes = kRiffHeadBytes + kChunkHeadBytes + kVp8xPayloadBytes;
  if (file_.size() < kHeadBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "WebP: the file says that it has ", stated_bytes_, " bytes; its header alone has more"));
  }
  const uint8_t* const vp8x = &file_[kRiffHeadBytes + kChunkHeadBytes];
  animation_.canvas = {static_cast<int>(LoadLe24(vp8x + 4) + 1),
                       static_cast<int>(LoadLe24(vp8x + 7) + 1)};
  FrameCounter counter(kAnimatedWebp, animation_.canvas, limits_);
  const WebpAnnounced announced = AnnouncedInWebp(file_);
  size_t position = kHeadBytes;
  bool cut_in_frame = false;
  while (file_.size() >= position + kChunkHeadBytes) {
    const std::span<const uint8_t> chunk = file_.subspan(position);
    const size_t length = LoadLe32(&chunk[4]);
    const bool is_frame = TypeAt(chunk) == "ANMF";
    cut_in_frame = is_frame && chunk.size() - kChunkHeadBytes < length;
    // Without the pixels behind it, its size is enough to count it.
    if (is_frame && chunk.size() >= kChunkHeadBytes + kFrameHeadBytes) {
      const uint8_t* const head = &chunk[kChunkHeadBytes];
      RETURN_IF_ERROR(counter.Add((int64_t{LoadLe24(head + 6)} + 1) * (LoadLe24(head + 9) + 1)));
    }
    if (chunk.size() - kChunkHeadBytes < length) break;
    const std::span<const uint8_t> payload = chunk.subspan(kChunkHeadBytes, length);
    if (is_frame) RETURN_IF_ERROR(AddFrame(payload));
    if (TypeAt(chunk) == "ANIM" && length >= kAnimPayloadBytes)
      animation_.animation.plays = LoadLe16(&payload[4]);
    if (TypeAt(chunk) == "ICCP" && announced.icc && animation_.icc_profile.empty()) {
      RETURN_IF_ERROR(CheckMetadataBytes(kAnimatedWebp, length, limits_));
      animation_.icc_profile = payload;
    }
    position += kChunkHeadBytes + length + (length & 1);
    animation_.end = std::min(position, file_.size());
  }
  if (animation_.end < stated_bytes_ && !is_whole) {
    RETURN_IF_ERROR(
        CheckAnimationBytes(kAnimatedWebp, std::max(stated_bytes_, file_.size()), limits_));
    return false;
  }
  WebpLeftOut left_out(file_);
  left_out.Pass(file_.first(animation_.end));
  left_out.Warn(animation_.warnings);
  RETURN_IF_ERROR(Conclude(cut_in_frame));
  return true;
}

absl::Status WebpAnimationWalk::AddFrame(std::span<const uint8_t> payload) {
  if (payload.size() < kFrameHeadBytes)
    return absl::InvalidArgumentError("WebP: a frame (ANMF) is cut short");
  const Rect place{
      static_cast<int>(2 * LoadLe24(&payload[0])), static_cast<int>(2 * LoadLe24(&payload[3])),
      static_cast<int>(LoadLe24(&payload[6]) + 1), static_cast<int>(LoadLe24(&payload[9]) + 1)};
  const Rect canvas{0, 0, animation_.canvas.width, animation_.canvas.height};
  const size_t number = animation_.frames.size() + 1;
  if (!canvas.Contains(place))
    return absl::InvalidArgumentError(absl::StrCat(
        "WebP: frame ", number, " is ", place.width, " x ", place.height, " px at ", place.x, ", ",
        place.y, ", outside of the canvas of ", canvas.width, " x ", canvas.height));
  shown_ms_ += LoadLe24(&payload[12]);
  if (shown_ms_ > INT32_MAX)
    return absl::InvalidArgumentError(absl::StrCat("WebP: the first ", number,
                                                   " frames are shown for ", shown_ms_,
                                                   " ms; the limit is ", INT32_MAX));
  const bool clears = (payload[15] & 1) != 0, replaces = (payload[15] & 2) != 0;
  const WebpFrame frame{payload.subspan(kFrameHeadBytes), place.size()};
  const bool has_alpha = HasAlpha(frame, animation_.lossless);
  const bool is_first = animation_.frames.empty();
  if ((is_first && place != canvas) || (has_alpha && (is_first || replaces)) || last_clears_)
    animation_.needs_alpha = true;
  last_clears_ = clears;
  animation_.frames.push_back(frame);
  return absl::OkStatus();
}

absl::Status WebpAnimationWalk::Conclude(bool cut_in_frame) {
  const size_t frames = animation_.frames.size();
  animation_.animation.frames = static_cast<int>(frames);
  if (animation_.end >= stated_bytes_) {
    return frames > 0 ? absl::OkStatus()
                      : absl::InvalidArgumentError("WebP: the animation has no frames");
  }
  if (cut_in_frame && (!limits_.fill_damage || frames == 0))
    return absl::InvalidArgumentError(
        absl::StrCat("WebP: the file is truncated in frame ", frames + 1));
  if (frames == 0) return absl::InvalidArgumentError("WebP: the file is truncated");
  animation_.warnings.push_back(
      cut_in_frame ? absl::StrCat("WebP: the file is truncated in frame ", frames + 1,
                                  ", which is left out with all behind it")
                   : absl::StrCat("WebP: the file ends ", stated_bytes_ - animation_.end,
                                  " bytes before its stated size; its frames were read"));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<WebpAnimation>> ParseWebpAnimation(std::span<const uint8_t> prefix,
                                                                const DecodeLimits& limits,
                                                                bool is_whole) {
  WebpAnimationWalk walk(prefix, limits);
  ASSIGN_OR_RETURN(const bool done, walk.Run(is_whole));
  return done ? std::optional(std::move(walk.animation())) : std::nullopt;
}

struct DeleteAnimDecoder {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

class WebpFrames final : public FrameReader {
 public:
  WebpFrames(std::unique_ptr<ReplaySource> source, WebpAnimation animation)
      : source_(std::move(source)), animation_(std::move(animation)) {
    warnings = std::move(animation_.warnings);
  }

  absl::Status Start(const DecodeLimits& limits);
  absl::StatusOr<StoredFrame> Next() override;
  absl::Status Draw(MutableImageView place) override;

 private:
  void KeepMetadata(const DecodeLimits& limits);

  const std::unique_ptr<ReplaySource> source_;  // holds the file
  WebpAnimation animation_;
  std::vector<uint8_t> whole_;  // the file with its true size, if it states another one
  std::unique_ptr<WebPAnimDecoder, DeleteAnimDecoder> decoder_;
  const uint8_t* rgba_ = nullptr;  // the canvas, within decoder_
  int next_ = 0;
  int shown_ms_ = 0;  // of the frames so far
};

void WebpFrames::KeepMetadata(const DecodeLimits& limits) {
  const std::span<const uint8_t> file = source_->prefix();
  metadata.icc_profile.assign(animation_.icc_profile.begin(), animation_.icc_profile.end());
  const auto keep = [&](std::string block, absl::string_view name) {
    if (BytesOf(metadata) + block.size() <= limits.max_metadata_bytes) return block;
    warnings.push_back(absl::StrCat("WebP: ", name, " has ", block.size(),
                                    " bytes and is left out; the limit is ",
                                    limits.max_metadata_bytes));
    return std::string();
  };
  metadata.exif = keep(WebpExif(file), "EXIF");
  metadata.xmp = keep(WebpXmp(file), "XMP");
}

absl::Status WebpFrames::Start(const DecodeLimits& limits) {
  KeepMetadata(limits);
  std::span<const uint8_t> file = source_->prefix();
  if (animation_.end != WebpFileBytes(file)) {
    whole_.assign(file.begin(), file.begin() + static_cast<ptrdiff_t>(animation_.end));
    for (int i = 0; i < 4; ++i)
      whole_[4 + i] = static_cast<uint8_t>((animation_.end - kChunkHeadBytes) >> (8 * i));
    file = whole_;
  }
  WebPAnimDecoderOptions options;
  if (!WebPAnimDecoderOptionsInit(&options))
    return absl::InternalError("WebP: libwebpdemux is of another version");
  options.color_mode = MODE_RGBA;
  options.use_threads = 0;
  const WebPData data = {file.data(), file.size()};
  decoder_.reset(WebPAnimDecoderNew(&data, &options));
  if (decoder_ == nullptr)
    return absl::InvalidArgumentError("WebP: the animation is corrupt, or memory is short");
  return absl::OkStatus();
}

absl::StatusOr<StoredFrame> WebpFrames::Next() {
  const WebpFrame& frame = animation_.frames[next_++];
  // libwebp allocates for all tables in a frame.
  const size_t before = static_cast<size_t>(frame.chunks.data() - source_->prefix().data());
  const std::span<const uint8_t> from =
      source_->prefix().subspan(before - kRiffHeadBytes, frame.chunks.size() + kRiffHeadBytes);
  ASSIGN_OR_RETURN(const bool checked, CheckHuffmanTables(from, frame.size));
  uint8_t* rgba = nullptr;
  int end_ms = 0;
  if (!checked || !WebPAnimDecoderGetNext(decoder_.get(), &rgba, &end_ms))
    return absl::InvalidArgumentError(absl::StrCat("WebP: frame ", next_, " is corrupt"));
  rgba_ = rgba;
  const auto delay_ms = static_cast<uint32_t>(end_ms - std::exchange(shown_ms_, end_ms));
  return StoredFrame{.place = {0, 0, animation_.canvas.width, animation_.canvas.height},
                     .delay = {delay_ms, 1000}};
}

absl::Status WebpFrames::Draw(MutableImageView place) {
  const int channels = place.spec.channels;
  for (int y = 0; y < place.height_px(); ++y) {
    const uint8_t* src = rgba_ + size_t{4} * y * place.width_px();
    uint8_t* dst = place.row(y);
    for (int x = 0; x < place.width_px(); ++x, src += 4, dst += channels)
      std::memcpy(dst, src, channels);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsWebpAnimation(std::span<const uint8_t> prefix) {
  const auto vp8x = FindWebpChunk(prefix, "VP8X");
  return vp8x.has_value() && vp8x->size() == kVp8xPayloadBytes && ((*vp8x)[0] & kAnimatedFlag) != 0;
}

absl::StatusOr<std::optional<ImageHeader>> ParseWebpAnimationHeader(std::span<const uint8_t> prefix,
                                                                    const DecodeLimits& limits,
                                                                    bool is_whole) {
  ASSIGN_OR_RETURN(const std::optional<WebpAnimation> animation,
                   ParseWebpAnimation(prefix, limits, is_whole));
  if (!animation.has_value()) return std::nullopt;
  ImageHeader header;
  header.format = ImageFormat::kWebp;
  header.lossless_webp = animation->lossless;
  header.spec = {animation->canvas.width, animation->canvas.height, animation->needs_alpha ? 4 : 3,
                 SampleType::kU8};
  header.orientation = ExifOrientation(AsBytes(WebpExif(prefix))).value_or(Orientation::kIdentity);
  if (SwapsSides(header.orientation)) std::swap(header.spec.width_px, header.spec.height_px);
  RETURN_IF_ERROR(DescribeFrames(kAnimatedWebp, animation->animation, limits, header));
  header.prefix_bytes = HeaderBufferBytes(prefix.size());
  header.metadata_bytes = std::min(prefix.size(), limits.max_metadata_bytes);
  // libwebp has two canvases of RGBA, and decodes a frame into a part of one with 7 bytes a pixel.
  constexpr size_t kBytesPerPixel = 4 + 4 + 7;
  header.decoder_bytes = kDemuxBytes + header.prefix_bytes + 3 * prefix.size() +
                         kBytesPerPixel * static_cast<size_t>(animation->canvas.Area()) +
                         HuffmanTableBytes(animation->canvas) + header.metadata_bytes +
                         CanvasBytes(header);
  return header;
}

absl::StatusOr<std::unique_ptr<FrameReader>> OpenWebpFrames(std::unique_ptr<ReplaySource> source,
                                                            const DecodeLimits& limits) {
  ASSIGN_OR_RETURN(std::optional<WebpAnimation> animation,
                   ParseWebpAnimation(source->prefix(), limits, /*is_whole=*/true));
  auto frames = std::make_unique<WebpFrames>(std::move(source), *std::move(animation));
  RETURN_IF_ERROR(frames->Start(limits));
  return frames;
}

}  // namespace upscaled
