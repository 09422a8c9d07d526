// Source: Graphics Interchange Format, version 89a.
#include "engine/image/gif_header.h"

#include <algorithm>

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

// The data of the sub-blocks at `position`, which end within `prefix`.
std::string DataOfSubBlocks(std::span<const uint8_t> prefix, size_t position) {
  std::string data;
  while (prefix[position] != 0) {
    const auto block = prefix.subspan(position + 1, prefix[position]);
    data.append(block.begin(), block.end());
    position += 1 + block.size();
  }
  return data;
}

void ParseApplication(std::span<const uint8_t> prefix, size_t position, size_t end,
                      GifLayout& layout) {
  // XMP is no sub-blocks: 257 bytes behind it lead readers of such to their end.
  constexpr size_t kNameBytes = 11, kXmpTrailerBytes = 258;
  if (prefix[position] != kNameBytes) return;
  const std::string_view name(reinterpret_cast<const char*>(&prefix[position + 1]), kNameBytes);
  const size_t data = position + 1 + kNameBytes;
  if (name == "ICCRGBG1012") {
    layout.icc_profile = DataOfSubBlocks(prefix, data);
  } else if (name == "XMP DataXMP" && end - data > kXmpTrailerBytes) {
    layout.xmp.assign(reinterpret_cast<const char*>(&prefix[data]), end - data - kXmpTrailerBytes);
  }
}

// An extension whose sub-blocks are those from `position` to `end`.
void ParseExtension(uint8_t label, std::span<const uint8_t> prefix, size_t position, size_t end,
                    GifLayout& layout) {
  constexpr uint8_t kIsTransparent = 1;
  if (label == kGraphicControl && prefix[position] == 4) {
    layout.transparent_index.reset();
    if ((prefix[position + 1] & kIsTransparent) != 0)
      layout.transparent_index = prefix[position + 4];
  } else if (label == kComment && layout.comments.size() < kMaxGifTexts) {
    layout.comments.push_back(DataOfSubBlocks(prefix, position));
  } else if (label == kPlainText) {
    layout.has_plain_text = true;
  } else if (label == kApplication) {
    ParseApplication(prefix, position, end, layout);
  }
}

}  // namespace

absl::StatusOr<std::optional<GifLayout>> ParseGifLayout(std::span<const uint8_t> prefix,
                                                        const DecodeLimits& limits) {
  if (prefix.size() < kScreenBytes) return std::nullopt;
  GifLayout layout;
  layout.canvas = {static_cast<int>(LoadLe16(&prefix[6])), static_cast<int>(LoadLe16(&prefix[8]))};
  size_t position = kScreenBytes + GifTableBytes(prefix[10]);
  bool has_table = GifTableBytes(prefix[10]) > 0;
  while (position < prefix.size()) {
    RETURN_IF_ERROR(CheckMetadataBytes(kGif, position, limits));
    if (prefix[position] == kGifTrailer) return absl::InvalidArgumentError("GIF: it has no image");
    if (prefix[position] == kGifImage) {
      if (prefix.size() < position + kImageBytes) return std::nullopt;
      const uint8_t* const image = &prefix[position];
      layout.frame = {static_cast<int>(LoadLe16(image + 1)), static_cast<int>(LoadLe16(image + 3)),
                      static_cast<int>(LoadLe16(image + 5)), static_cast<int>(LoadLe16(image + 7))};
      has_table = has_table || GifTableBytes(image[9]) > 0;
      if (!has_table) return absl::InvalidArgumentError("GIF: the image has no colour table");
      layout.canvas.width = std::max(layout.canvas.width, layout.frame.x + layout.frame.width);
      layout.canvas.height = std::max(layout.canvas.height, layout.frame.y + layout.frame.height);
      layout.pixels_begin = position;
      return layout;
    }
    if (prefix[position] != kGifExtension)
      return absl::InvalidArgumentError(absl::StrCat(
          "GIF: a block of the unknown kind ", prefix[position], " begins at byte ", position));
    if (prefix.size() < position + 3) return std::nullopt;
    const std::optional<size_t> end = EndOfSubBlocks(prefix, position + 2);
    if (!end.has_value()) {
      RETURN_IF_ERROR(CheckMetadataBytes(kGif, prefix.size(), limits));
      return std::nullopt;
    }
    if (*end > prefix.size()) return std::nullopt;
    ParseExtension(prefix[position + 1], prefix, position + 2, *end, layout);
    position = *end;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<ImageHeader>> ParseGifHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits, bool) {
  ASSIGN_OR_RETURN(const std::optional<GifLayout> layout, ParseGifLayout(prefix, limits));
  if (!layout.has_value()) return std::nullopt;
  RETURN_IF_ERROR(CheckImageSize(kGif, layout->canvas.width, layout->canvas.height, limits));
  if (layout->frame.width == 0 || layout->frame.height == 0)
    return absl::InvalidArgumentError("GIF: its first frame is empty");
  ImageHeader header;
  header.format = ImageFormat::kGif;
  header.spec = {layout->canvas.width, layout->canvas.height, layout->has_alpha() ? 4 : 3,
                 SampleType::kU8};
  if (layout->has_plain_text)
    header.warnings.push_back("GIF: text that is to be drawn is left out");
  header.prefix_bytes = HeaderBufferBytes(layout->pixels_begin);
  header.metadata_bytes = 2 * layout->pixels_begin;  // Latin-1 text grows when it becomes UTF-8
  header.decoder_bytes = header.prefix_bytes + BufferedSource::kBytes + kGifBytes +
                         ImageBytes(header.spec) + 2 * header.metadata_bytes;
  return header;
}

}  // namespace upscaled
