#include "engine/image/png_frames.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/memory_io.h"
#include "engine/image/piece_deflater.h"
#include "engine/image/png_bomb_guard.h"

namespace upscaled {
namespace {

constexpr char kApng[] = "PNG";
constexpr size_t kFcTlBytes = 26, kSequenceBytes = 4;
constexpr size_t kMaxFrameWarnings = 64;

std::string_view TypeOf(std::span<const uint8_t> chunk) {
  return {reinterpret_cast<const char*>(&chunk[4]), 4};
}

// `chunk` is whole.
std::span<const uint8_t> DataOf(std::span<const uint8_t> chunk) {
  return chunk.subspan(kPngChunkHeaderBytes, chunk.size() - kPngChunkHeaderBytes - kPngCrcBytes);
}

// The chunks of a file in order.
class ChunkWalk {
 public:
  explicit ChunkWalk(std::span<const uint8_t> file) : file_(file) {}

  // The next chunk, possibly cut off by the file's end; nullopt: not even its type is there.
  absl::StatusOr<std::optional<std::span<const uint8_t>>> Next() {
    const std::span<const uint8_t> rest = file_.subspan(std::min(position_, file_.size()));
    if (rest.size() < kPngChunkHeaderBytes) return std::nullopt;
    const size_t length = LoadBe32(rest.data());
    if (length > INT32_MAX)
      return absl::InvalidArgumentError(
          absl::StrCat("PNG: a chunk of ", length, " bytes; the format allows 2147483647"));
    const size_t bytes = kPngChunkHeaderBytes + length + kPngCrcBytes;
    position_ += bytes;
    is_cut_ = bytes > rest.size();
    return rest.first(std::min(bytes, rest.size()));
  }
  // Whether the last chunk ends beyond the file.
  bool is_cut() const { return is_cut_; }

 private:
  const std::span<const uint8_t> file_;
  size_t position_ = kPngSignatureBytes;
  bool is_cut_ = false;
};

absl::StatusOr<PngFrame> ParseFrameControl(std::span<const uint8_t> data, size_t number,
                                           Size canvas) {
  if (data.size() != kFcTlBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("PNG: the control of frame ", number, " (fcTL) has ", data.size(), " bytes"));
  const int64_t width = LoadBe32(&data[4]), height = LoadBe32(&data[8]), x = LoadBe32(&data[12]),
                y = LoadBe32(&data[16]);
  if (width == 0 || height == 0 || x + width > canvas.width || y + height > canvas.height)
    return absl::InvalidArgumentError(
        absl::StrCat("PNG: frame ", number, " is ", width, " x ", height, " px at ", x, ", ", y,
                     ", outside of the canvas of ", canvas.width, " x ", canvas.height));
  const uint32_t denominator = LoadBe16(&data[22]);
  const uint8_t disposal = data[24], blending = data[25];
  if (disposal > 2 || blending > 1)
    return absl::InvalidArgumentError(absl::StrCat("PNG: frame ", number,
                                                   " has the undefined disposal ", disposal,
                                                   " or blending ", blending));
  PngFrame frame;
  frame.stored = {.place = {static_cast<int>(x), static_cast<int>(y), static_cast<int>(width),
                            static_cast<int>(height)},
                  .delay = {LoadBe16(&data[20]), denominator == 0 ? 100 : denominator},
                  .disposal = disposal == 0   ? Disposal::kKeep
                              : disposal == 1 ? Disposal::kClear
                                              : Disposal::kPrevious};
  frame.blends = blending == 1;
  return frame;
}

class AnimationWalk {
 public:
  AnimationWalk(std::span<const uint8_t> prefix, const DecodeLimits& limits)
      : limits_(limits), chunks_(prefix), prefix_bytes_(prefix.size()) {}

  // Whether the file's end was reached.
  absl::StatusOr<bool> Run(bool is_whole);
  PngAnimation& animation() { return animation_; }

 private:
  absl::Status Add(std::span<const uint8_t> chunk);
  absl::Status BeginFrame(std::span<const uint8_t> chunk);
  absl::Status CheckStated();
  absl::Status Conclude(bool has_end);

  const DecodeLimits& limits_;
  ChunkWalk chunks_;
  const size_t prefix_bytes_;
  PngAnimation animation_;
  bool has_pixels_ = false;  // an IDAT has been seen
  uint32_t stated_ = 0;
  size_t surplus_ = 0;  // frames beyond those
};

absl::StatusOr<bool> AnimationWalk::Run(bool is_whole) {
  while (true) {
    ASSIGN_OR_RETURN(const auto chunk, chunks_.Next());
    if (chunk.has_value() && !chunks_.is_cut() && TypeOf(*chunk) == "IEND") {
      RETURN_IF_ERROR(Conclude(/*has_end=*/true));
      return true;
    }
    if (!is_whole && (!chunk.has_value() || chunks_.is_cut())) {
      RETURN_IF_ERROR(CheckAnimationBytes(kApng, prefix_bytes_, limits_));
      return false;
    }
    if (chunk.has_value()) RETURN_IF_ERROR(Add(*chunk));
    if (chunk.has_value() && !chunks_.is_cut()) continue;
    RETURN_IF_ERROR(Conclude(/*has_end=*/false));
    return true;
  }
}

absl::Status AnimationWalk::Add(std::span<const uint8_t> chunk) {
  const std::string_view type = TypeOf(chunk);
  if (type == "IDAT" || type == "fdAT") {
    has_pixels_ = true;
    // An image outside of the frames is shown by readers without animations.
    if (animation_.frames.empty() || surplus_ > 0) return absl::OkStatus();
    PngFrame& frame = animation_.frames.back();
    frame.pixels.push_back(chunk);
    frame.is_cut = chunks_.is_cut();
    return absl::OkStatus();
  }
  if (chunks_.is_cut()) return absl::OkStatus();
  if (type == "IHDR") {
    if (!animation_.ihdr.empty()) return absl::InvalidArgumentError("PNG: it has a second IHDR");
    animation_.ihdr = chunk;
    animation_.canvas = {static_cast<int>(LoadBe32(&chunk[8])),
                         static_cast<int>(LoadBe32(&chunk[12]))};
  } else if (type == "acTL" && stated_ == 0 && DataOf(chunk).size() >= kAcTlBytes) {
    stated_ = LoadBe32(DataOf(chunk).data());
    animation_.animation.plays = LoadBe32(DataOf(chunk).data() + 4);
    return CheckStated();
  } else if (type == "fcTL") {
    return BeginFrame(chunk);
  } else if (type != "acTL") {
    (has_pixels_ ? animation_.late : animation_.head).push_back(chunk);
  }
  return absl::OkStatus();
}

// By acTL, before the frames are there.
absl::Status AnimationWalk::CheckStated() {
  if (stated_ > static_cast<uint32_t>(limits_.max_frames))
    return BeyondLimit(limits_, DecodeLimit::kFrames, stated_,
                       absl::StrCat("PNG: the animation has ", stated_, " frames; the limit is ",
                                    limits_.max_frames));
  const int64_t pixels = stated_ * animation_.canvas.Area();
  if (pixels > limits_.max_pixels)
    return BeyondLimit(limits_, DecodeLimit::kPixels, pixels,
                       absl::StrCat("PNG: the animation's ", stated_, " frames have ", pixels,
                                    " pixels; the limit is ", limits_.max_pixels));
  return absl::OkStatus();
}

absl::Status AnimationWalk::BeginFrame(std::span<const uint8_t> chunk) {
  std::vector<PngFrame>& frames = animation_.frames;
  if (frames.size() == stated_) {
    ++surplus_;
    return absl::OkStatus();
  }
  if (!frames.empty() && frames.back().pixels.empty())
    return absl::InvalidArgumentError(absl::StrCat("PNG: frame ", frames.size(), " has no pixels"));
  ASSIGN_OR_RETURN(PngFrame frame,
                   ParseFrameControl(DataOf(chunk), frames.size() + 1, animation_.canvas));
  if (!has_pixels_ && frame.stored.place.size() != animation_.canvas)
    return absl::InvalidArgumentError("PNG: the first frame does not cover the canvas");
  if (frames.empty()) {
    animation_.needs_alpha = frame.stored.place.size() != animation_.canvas;
    // Before the first frame the canvas is transparent.
    if (frame.stored.disposal == Disposal::kPrevious) frame.stored.disposal = Disposal::kClear;
  }
  frames.push_back(std::move(frame));
  return absl::OkStatus();
}

absl::Status AnimationWalk::Conclude(bool has_end) {
  std::vector<PngFrame>& frames = animation_.frames;
  if (!frames.empty() && frames.back().pixels.empty()) frames.pop_back();
  if (frames.empty()) return absl::InvalidArgumentError("PNG: the animation has no frames");
  const std::string there =
      absl::StrCat("PNG: of the animation's ", stated_, " frames ", frames.size(), " are there");
  if (frames.size() < stated_ && !has_end && !limits_.fill_damage)
    return absl::InvalidArgumentError(absl::StrCat(there, ": the file is truncated"));
  if (frames.size() < stated_) animation_.warnings.push_back(there);
  if (surplus_ > 0)
    animation_.warnings.push_back(absl::StrCat("PNG: the animation says that it has ", stated_,
                                               " frames; ", surplus_, " more are left out"));
  if (!has_end && !frames.back().is_cut)
    animation_.warnings.push_back("PNG: the end of the file is missing; all frames were read");
  animation_.animation.frames = static_cast<int>(frames.size());
  animation_.needs_alpha = animation_.needs_alpha ||
                           std::any_of(frames.begin(), frames.end() - 1, [](const PngFrame& frame) {
                             return frame.stored.disposal == Disposal::kClear;
                           });
  return absl::OkStatus();
}

void AppendChunk(std::string_view type, std::span<const uint8_t> data, std::vector<uint8_t>& file) {
  const size_t begin = file.size();
  file.resize(begin + kPngChunkHeaderBytes);
  StoreBe32(static_cast<uint32_t>(data.size()), &file[begin]);
  std::copy(type.begin(), type.end(), &file[begin + 4]);
  file.insert(file.end(), data.begin(), data.end());
  const uint32_t crc = Crc32(std::span(file).subspan(begin + 4));
  file.resize(file.size() + kPngCrcBytes);
  StoreBe32(crc, file.data() + file.size() - kPngCrcBytes);
}

void Append(std::span<const uint8_t> bytes, std::vector<uint8_t>& file) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

// An fdAT chunk as IDAT. A wrong checksum stays wrong.
void AppendFrameData(std::span<const uint8_t> chunk, bool is_cut, std::vector<uint8_t>& file) {
  constexpr size_t kDataBegin = kPngChunkHeaderBytes + kSequenceBytes;
  const size_t length = LoadBe32(chunk.data());
  if (length < kSequenceBytes || chunk.size() < kDataBegin) return;
  if (!is_cut) {
    AppendChunk("IDAT", DataOf(chunk).subspan(kSequenceBytes), file);
    const std::span<const uint8_t> typed = chunk.subspan(4, chunk.size() - 4 - kPngCrcBytes);
    if (LoadBe32(&chunk[chunk.size() - kPngCrcBytes]) != Crc32(typed)) file.back() ^= 1;
    return;
  }
  const size_t begin = file.size();
  file.resize(begin + kPngChunkHeaderBytes);
  StoreBe32(static_cast<uint32_t>(length - kSequenceBytes), &file[begin]);
  std::copy_n("IDAT", 4, &file[begin + 4]);
  Append(chunk.subspan(kDataBegin), file);
}

// Draws `src` over `dst`, pixels with alpha: the specification's formula, in whole numbers.
template <typename T>
void BlendRow(const T* src, T* dst, int width, int channels) {
  constexpr uint64_t kMost = std::numeric_limits<T>::max();
  for (int x = 0; x < width; ++x, src += channels, dst += channels) {
    const uint64_t above = src[channels - 1], below = dst[channels - 1];
    if (above == 0) continue;
    if (above == kMost || below == 0) {
      std::copy_n(src, channels, dst);
      continue;
    }
    const uint64_t u = above * kMost, v = (kMost - above) * below, alpha = u + v;
    for (int c = 0; c < channels - 1; ++c)
      dst[c] = static_cast<T>((src[c] * u + dst[c] * v + alpha / 2) / alpha);
    dst[channels - 1] = static_cast<T>((alpha + kMost / 2) / kMost);
  }
}

// Copies opaque pixels of as many colours as `dst` has, and makes its alpha full.
template <typename T>
void CopyOpaqueRow(const T* src, T* dst, int width, int channels) {
  for (int x = 0; x < width; ++x, src += channels - 1, dst += channels) {
    std::copy_n(src, channels - 1, dst);
    dst[channels - 1] = std::numeric_limits<T>::max();
  }
}

template <typename T>
void DrawRow(const ImageView& row, bool blends, const MutableImageView& place, int y) {
  const T* const src = row.row_as<T>(0);
  T* const dst = place.row_as<T>(y);
  if (row.spec.channels < place.spec.channels)
    CopyOpaqueRow(src, dst, place.width_px(), place.spec.channels);
  else if (blends && row.spec.has_alpha())
    BlendRow(src, dst, place.width_px(), place.spec.channels);
  else
    std::memcpy(dst, src, place.spec.row_bytes());
}

class PngFrames final : public FrameReader {
 public:
  PngFrames(std::unique_ptr<ReplaySource> source, PngAnimation animation,
            const DecodeLimits& limits, const Cancellation* cancellation)
      : source_(std::move(source)),
        animation_(std::move(animation)),
        limits_(limits),
        cancellation_(cancellation),
        last_(limits.frame == 0 ? animation_.frames.size() : limits.frame) {
    limits_.frame = 1;  // of the files of single frames
    warnings = animation_.warnings;
  }

  absl::Status Start() {
    RETURN_IF_ERROR(Open(0));
    metadata = std::move(image_->metadata);
    return absl::OkStatus();
  }

  absl::StatusOr<StoredFrame> Next() override { return animation_.frames[next_++].stored; }
  absl::Status Draw(MutableImageView place) override;

 private:
  absl::Status Open(size_t index);

  const std::unique_ptr<ReplaySource> source_;  // holds the file
  const PngAnimation animation_;
  DecodeLimits limits_;
  const Cancellation* const cancellation_;
  const size_t last_;  // the number of the last frame that is drawn
  size_t next_ = 0;
  MemorySource nothing_{std::span<const uint8_t>()};
  std::unique_ptr<StoredImage> image_;  // the frame that is to be drawn, if it is open
};

absl::Status PngFrames::Open(size_t index) {
  std::vector<uint8_t> file = PngOfFrame(animation_, index, /*has_late=*/index + 1 == last_);
  ASSIGN_OR_RETURN(const std::optional<ImageHeader> header,
                   ParsePngHeader(file, limits_, /*is_whole=*/true));
  if (!header.has_value())
    return absl::InvalidArgumentError(
        absl::StrCat("PNG: frame ", index + 1, " is cut off before its pixels"));
  ASSIGN_OR_RETURN(image_, OpenStoredPng(std::make_unique<ReplaySource>(std::move(file), nothing_),
                                         StoredSpec(*header), limits_, cancellation_));
  return absl::OkStatus();
}

absl::Status PngFrames::Draw(MutableImageView place) {
  const PngFrame& frame = animation_.frames[next_ - 1];
  if (image_ == nullptr) RETURN_IF_ERROR(Open(next_ - 1));
  ImageSpec row_spec = image_->spec();
  row_spec.height_px = 1;
  Image row(row_spec);
  for (int y = 0; y < place.height_px(); ++y) {
    RETURN_IF_ERROR(image_->ReadRows(row.mutable_view()));
    if (row_spec.type == SampleType::kU8)
      DrawRow<uint8_t>(row.view(), frame.blends, place, y);
    else
      DrawRow<uint16_t>(row.view(), frame.blends, place, y);
  }
  for (std::string& warning : image_->warnings)
    if (warnings.size() < kMaxFrameWarnings)
      warnings.push_back(absl::StrCat(warning, " (frame ", next_, ")"));
  if (next_ == last_) late_metadata = std::move(image_->late_metadata);
  image_.reset();
  return absl::OkStatus();
}

}  // namespace

uint32_t StatedPngFrames(std::span<const uint8_t> prefix) {
  ChunkWalk chunks(prefix);
  while (true) {
    const auto chunk = chunks.Next();
    if (!chunk.ok() || !chunk->has_value() || chunks.is_cut()) return 0;
    const std::string_view type = TypeOf(**chunk);
    if (type == "acTL" && DataOf(**chunk).size() >= kAcTlBytes)
      return LoadBe32(DataOf(**chunk).data());
    if (type == "IDAT" || type == "IEND") return 0;
  }
}

absl::StatusOr<std::optional<PngAnimation>> ParsePngAnimation(std::span<const uint8_t> prefix,
                                                              const DecodeLimits& limits,
                                                              bool is_whole) {
  AnimationWalk walk(prefix, limits);
  ASSIGN_OR_RETURN(const bool done, walk.Run(is_whole));
  return done ? std::optional(std::move(walk.animation())) : std::nullopt;
}

std::vector<uint8_t> PngOfFrame(const PngAnimation& animation, size_t index, bool has_late) {
  const PngFrame& frame = animation.frames[index];
  std::vector<uint8_t> file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  std::vector<uint8_t> ihdr(DataOf(animation.ihdr).begin(), DataOf(animation.ihdr).end());
  StoreBe32(frame.stored.place.width, &ihdr[0]);
  StoreBe32(frame.stored.place.height, &ihdr[4]);
  AppendChunk("IHDR", ihdr, file);
  for (const std::span<const uint8_t> chunk : animation.head)
    if (index == 0 || TypeOf(chunk) == "PLTE" || TypeOf(chunk) == "tRNS") Append(chunk, file);
  for (const std::span<const uint8_t>& chunk : frame.pixels) {
    const bool is_cut = frame.is_cut && &chunk == &frame.pixels.back();
    if (TypeOf(chunk) == "IDAT")
      Append(chunk, file);
    else
      AppendFrameData(chunk, is_cut, file);
  }
  if (frame.is_cut) return file;
  if (has_late)
    for (const std::span<const uint8_t> chunk : animation.late) Append(chunk, file);
  AppendChunk("IEND", {}, file);
  return file;
}

absl::StatusOr<std::unique_ptr<FrameReader>> OpenPngFrames(std::unique_ptr<ReplaySource> source,
                                                           PngAnimation animation,
                                                           const DecodeLimits& limits,
                                                           const Cancellation* cancellation) {
  auto frames =
      std::make_unique<PngFrames>(std::move(source), std::move(animation), limits, cancellation);
  RETURN_IF_ERROR(frames->Start());
  return frames;
}

}  // namespace upscaled
