// Source: Graphics Interchange Format, version 89a.
#include "engine/image/gif_header.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/buffered_source.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"

namespace upscaled {
namespace {

constexpr char kGif[] = "GIF";
constexpr size_t kScreenBytes = 13;      // signature and logical screen descriptor
constexpr size_t kImageBytes = 10;       // an image descriptor
constexpr size_t kGifBytes = 128 << 10;  // giflib's structures and ours
constexpr uint8_t kGifExtension = 0x21, kGifImage = 0x2C, kGifTrailer = 0x3B;
constexpr uint8_t kGraphicControl = 0xF9, kComment = 0xFE, kApplication = 0xFF, kPlainText = 0x01;
constexpr uint8_t kGifHasTable = 0x80;
constexpr size_t kMaxGifTexts = 100;

size_t GifTableBytes(uint8_t flags) {
  return (flags & kGifHasTable) != 0 ? size_t{3} << ((flags & 7) + 1) : 0;
}

// Where the sub-blocks at `position` end; nullopt: beyond `prefix`.
std::optional<size_t> EndOfSubBlocks(std::span<const uint8_t> prefix, size_t position) {
  while (position < prefix.size()) {
    const size_t length = prefix[position++];
    if (length == 0) return position;
    position += length;
  }
  return std::nullopt;
}

// The data of the sub-blocks at `position`, with their end within `prefix`.
std::string DataOfSubBlocks(std::span<const uint8_t> prefix, size_t position) {
  std::string data;
  while (prefix[position] != 0) {
    const auto block = prefix.subspan(position + 1, prefix[position]);
    data.append(block.begin(), block.end());
    position += 1 + block.size();
  }
  return data;
}

// Fields of a graphic control extension, for the next frame.
GifFrame ParseGraphicControl(std::span<const uint8_t> block) {
  constexpr uint8_t kIsTransparent = 1;
  GifFrame control;
  if ((block[0] & kIsTransparent) != 0) control.transparent_index = block[3];
  control.delay = {LoadLe16(&block[1]), 100};
  const int disposal = block[0] >> 2 & 7;
  if (disposal == 2) control.disposal = Disposal::kClear;
  // Browsers take the undefined 4 for 3, its meaning in old files.
  if (disposal == 3 || disposal == 4) control.disposal = Disposal::kPrevious;
  return control;
}

void RecordOther(std::string_view name, GifLayout& layout) {
  const bool is_text = std::ranges::all_of(name, [](char c) { return absl::ascii_isprint(c); });
  layout.others.Add(is_text ? name : "an application's");
}

void ParseApplication(std::span<const uint8_t> prefix, size_t position, size_t end,
                      GifLayout& layout) {
  // XMP is no sub-blocks: 257 bytes behind it lead readers of such to their end.
  constexpr size_t kNameBytes = 11, kXmpTrailerBytes = 258;
  if (prefix[position] != kNameBytes) return;
  const std::string_view name(reinterpret_cast<const char*>(&prefix[position + 1]), kNameBytes);
  const size_t data = position + 1 + kNameBytes;
  const bool late = !layout.frames.empty();  // where other readers look for nothing
  if (name == "NETSCAPE2.0" || name == "ANIMEXTS1.0") {
    if (end - data < 4 || prefix[data] < 3 || prefix[data + 1] != 1) return;
    const uint32_t repeats = LoadLe16(&prefix[data + 2]);
    layout.plays = repeats == 0 ? 0 : repeats + 1;  // as browsers count
  } else if (!late && name == "ICCRGBG1012") {
    layout.icc_profile = DataOfSubBlocks(prefix, data);
  } else if (!late && name == "XMP DataXMP" && end - data > kXmpTrailerBytes) {
    layout.xmp.assign(reinterpret_cast<const char*>(&prefix[data]), end - data - kXmpTrailerBytes);
  } else {
    RecordOther(name, layout);
  }
}

// An extension with sub-blocks from `position` to `end`. `control`: of the next frame.
void ParseExtension(uint8_t label, std::span<const uint8_t> prefix, size_t position, size_t end,
                    GifFrame& control, GifLayout& layout) {
  if (label == kGraphicControl && prefix[position] == 4) {
    control = ParseGraphicControl(prefix.subspan(position + 1, 4));
  } else if (label == kComment && layout.comments.size() < kMaxGifTexts && layout.frames.empty()) {
    layout.comments.push_back(DataOfSubBlocks(prefix, position));
  } else if (label == kComment) {
    RecordOther("comments", layout);
  } else if (label == kPlainText) {
    layout.has_plain_text = true;
  } else if (label == kApplication) {
    ParseApplication(prefix, position, end, layout);
  }
}

// Walks a file's blocks as far as `prefix` goes.
class GifWalk {
 public:
  GifWalk(std::span<const uint8_t> prefix, const DecodeLimits& limits)
      : prefix_(prefix), limits_(limits) {}

  // Whether the walk came as far as it has to.
  absl::StatusOr<bool> Run(bool is_whole);
  GifLayout& layout() { return layout_; }

 private:
  // false: the prefix ends within the block.
  absl::StatusOr<bool> WalkImage();
  absl::StatusOr<bool> WalkExtension();
  // The prefix ends at `position_` or within the block there.
  absl::StatusOr<bool> EndOfPrefix(bool is_whole);

  const std::span<const uint8_t> prefix_;
  const DecodeLimits& limits_;
  GifLayout layout_;
  GifFrame control_;
  std::optional<FrameCounter> counter_;
  bool has_table_ = false;
  bool done_ = false;
  size_t position_ = 0;
};

absl::StatusOr<bool> GifWalk::Run(bool is_whole) {
  if (prefix_.size() < kScreenBytes) return false;
  layout_.canvas = {static_cast<int>(LoadLe16(&prefix_[6])),
                    static_cast<int>(LoadLe16(&prefix_[8]))};
  has_table_ = GifTableBytes(prefix_[10]) > 0;
  position_ = layout_.screen_bytes = kScreenBytes + GifTableBytes(prefix_[10]);
  while (position_ < prefix_.size() && !done_) {
    const bool first = layout_.frames.empty();
    if (first) RETURN_IF_ERROR(CheckMetadataBytes(kGif, position_, limits_));
    const uint8_t kind = prefix_[position_];
    layout_.lacks_end = kind != kGifTrailer && kind != kGifImage && kind != kGifExtension;
    if (first && kind == kGifTrailer) return absl::InvalidArgumentError("GIF: it has no image");
    if (first && layout_.lacks_end)
      return absl::InvalidArgumentError(
          absl::StrCat("GIF: a block of the unknown kind ", kind, " begins at byte ", position_));
    if (kind == kGifTrailer || layout_.lacks_end) return true;
    ASSIGN_OR_RETURN(const bool whole, kind == kGifImage ? WalkImage() : WalkExtension());
    if (!whole) break;
  }
  layout_.seen_bytes = std::min(position_, prefix_.size());
  return done_ ? true : EndOfPrefix(is_whole);
}

absl::StatusOr<bool> GifWalk::WalkImage() {
  if (prefix_.size() < position_ + kImageBytes) return false;
  const uint8_t* const image = &prefix_[position_];
  GifFrame frame = std::exchange(control_, {});
  frame.rect = {static_cast<int>(LoadLe16(image + 1)), static_cast<int>(LoadLe16(image + 3)),
                static_cast<int>(LoadLe16(image + 5)), static_cast<int>(LoadLe16(image + 7))};
  frame.begin = position_;
  const size_t table_bytes = GifTableBytes(image[9]);
  if (!has_table_ && table_bytes == 0)
    return absl::InvalidArgumentError("GIF: the image has no colour table");
  if (layout_.frames.empty()) {
    layout_.canvas.width = std::max(layout_.canvas.width, frame.rect.right());
    layout_.canvas.height = std::max(layout_.canvas.height, frame.rect.bottom());
    RETURN_IF_ERROR(CheckImageSize(kGif, layout_.canvas.width, layout_.canvas.height, limits_));
    counter_.emplace(kGif, layout_.canvas, limits_);
  }
  RETURN_IF_ERROR(counter_->Add(frame.rect.Area()));
  done_ = limits_.frame == 1;
  const std::optional<size_t> end =
      done_ ? std::nullopt : EndOfSubBlocks(prefix_, position_ + kImageBytes + table_bytes + 1);
  frame.end = std::min(end.value_or(prefix_.size()), prefix_.size());
  layout_.frames.push_back(frame);
  if (done_) return true;
  position_ = end.value_or(prefix_.size());
  return end.has_value() && *end <= prefix_.size();
}

absl::StatusOr<bool> GifWalk::WalkExtension() {
  if (prefix_.size() < position_ + 3) return false;
  const std::optional<size_t> end = EndOfSubBlocks(prefix_, position_ + 2);
  if (!end.has_value() && layout_.frames.empty())
    RETURN_IF_ERROR(CheckMetadataBytes(kGif, prefix_.size(), limits_));
  if (!end.has_value() || *end > prefix_.size()) return false;
  ParseExtension(prefix_[position_ + 1], prefix_, position_ + 2, *end, control_, layout_);
  position_ = *end;
  return true;
}

absl::StatusOr<bool> GifWalk::EndOfPrefix(bool is_whole) {
  if (layout_.frames.empty()) return false;
  layout_.lacks_end = true;
  if (layout_.frames.size() > 1)
    RETURN_IF_ERROR(CheckAnimationBytes(kGif, prefix_.size(), limits_));
  // One frame of the whole limit is read as a still; the decoder counts the frames behind it.
  return is_whole || prefix_.size() >= limits_.max_animation_bytes;
}

}  // namespace

bool GifLayout::has_alpha() const {
  const GifFrame& first = frames.front();
  if (first.transparent_index.has_value() || first.rect != Rect{0, 0, canvas.width, canvas.height})
    return true;
  // Before the first frame the canvas is transparent.
  if (frames.size() > 1 && first.disposal == Disposal::kPrevious) return true;
  return std::any_of(frames.begin(), frames.end() - 1,
                     [](const GifFrame& frame) { return frame.disposal == Disposal::kClear; });
}

absl::StatusOr<std::optional<GifLayout>> ParseGifLayout(std::span<const uint8_t> prefix,
                                                        const DecodeLimits& limits, bool is_whole) {
  GifWalk walk(prefix, limits);
  ASSIGN_OR_RETURN(const bool done, walk.Run(is_whole));
  return done ? std::optional(std::move(walk.layout())) : std::nullopt;
}

absl::StatusOr<std::optional<ImageHeader>> ParseGifHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits,
                                                          bool is_whole) {
  ASSIGN_OR_RETURN(const std::optional<GifLayout> layout, ParseGifLayout(prefix, limits, is_whole));
  if (!layout.has_value()) return std::nullopt;
  const GifFrame& first = layout->frames.front();
  if (first.rect.empty()) return absl::InvalidArgumentError("GIF: its first frame is empty");
  ImageHeader header;
  header.format = ImageFormat::kGif;
  header.spec = {layout->canvas.width, layout->canvas.height, layout->has_alpha() ? 4 : 3,
                 SampleType::kU8};
  if (layout->has_plain_text)
    header.warnings.push_back("GIF: text that is to be drawn is left out");
  if (!layout->others.empty())
    header.warnings.push_back(
        absl::StrCat("GIF: extensions are left out: ", layout->others.Names()));
  header.may_move = limits.frame == 1;
  if (limits.frame != 1) {
    const Animation animation{static_cast<int>(layout->frames.size()), layout->plays};
    RETURN_IF_ERROR(DescribeFrames(kGif, animation, limits, header));
  }
  header.prefix_bytes = HeaderBufferBytes(std::max(layout->seen_bytes, first.begin));
  header.metadata_bytes = 2 * first.begin;  // Latin-1 text grows when it becomes UTF-8
  header.decoder_bytes = header.prefix_bytes + BufferedSource::kBytes + kGifBytes +
                         layout->frames.size() * 2 * sizeof(GifFrame) + CanvasBytes(header) +
                         2 * header.metadata_bytes;
  return header;
}

}  // namespace upscaled
