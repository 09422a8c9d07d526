// Source: WebP container specification; RFC 6386, section 9.1 (VP8); WebP lossless specification,
// section 3 (VP8L).
#include "engine/image/webp_header.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/exif.h"
#include "engine/image/file_end.h"
#include "engine/image/memory_io.h"
#include "engine/image/orientation.h"
#include "engine/image/stored_image.h"
#include "engine/image/webp_frames.h"
#include "engine/image/webp_lossless.h"

namespace upscaled {
namespace {

constexpr char kWebp[] = "WebP";
constexpr size_t kRiffHeaderBytes = 8;  // which the size in it does not count
constexpr size_t kFileHeaderBytes = 12;
constexpr size_t kChunkHeaderBytes = 8;
constexpr size_t kVp8xBytes = 10;
constexpr size_t kFrameHeaderBytes = 16;  // of ANMF, before its chunks
constexpr size_t kVp8HeaderBytes = 10;
constexpr size_t kVp8lHeaderBytes = 5;
constexpr size_t kAlphHeaderBytes = 1;
constexpr uint8_t kLosslessAlpha = 1;  // ALPH's compression
constexpr uint8_t kAnimationFlag = 0x02, kXmpFlag = 0x04, kExifFlag = 0x08, kIccFlag = 0x20;
// libwebp's structures.
constexpr size_t kLibwebpBytes = 4 << 20;

constexpr uint32_t FourCc(std::string_view name) {
  return uint32_t(name[0]) | name[1] << 8 | name[2] << 16 | uint32_t(name[3]) << 24;
}

// The chunks found by the walk so far.
struct Container {
  Size canvas;              // from VP8X; empty without
  WebpAnnounced announced;  // from VP8X, too
  std::span<const uint8_t> icc_profile;
  Size image;
  bool has_alpha = false;
  bool lossless = false;
  bool found_pixels = false;
  bool is_animated = false;
  size_t position = kFileHeaderBytes;
};

WebpAnnounced AnnouncedBy(uint8_t flags) {
  return {.icc = (flags & kIccFlag) != 0,
          .exif = (flags & kExifFlag) != 0,
          .xmp = (flags & kXmpFlag) != 0};
}

absl::Status ParseVp8x(std::span<const uint8_t> payload, const DecodeLimits& limits,
                       Container& found) {
  found.is_animated = (payload[0] & kAnimationFlag) != 0;
  found.announced = AnnouncedBy(payload[0]);
  found.canvas = {static_cast<int>(LoadLe24(&payload[4]) + 1),
                  static_cast<int>(LoadLe24(&payload[7]) + 1)};
  return CheckImageSize(kWebp, found.canvas.width, found.canvas.height, limits);
}

// Size and alpha of the frame at the beginning of `payload`. ALPH comes before a VP8 chunk and has
// no size.
absl::Status ParseFrame(uint32_t type, std::span<const uint8_t> payload, Container& found) {
  found.found_pixels = true;
  if (type == FourCc("ALPH")) {
    found.image = found.canvas;
    found.has_alpha = true;
  } else if (type == FourCc("VP8 ")) {
    if ((payload[0] & 1) != 0 || payload[3] != 0x9D || payload[4] != 0x01 || payload[5] != 0x2A)
      return absl::InvalidArgumentError("WebP: the VP8 chunk begins with no key frame");
    found.image = {static_cast<int>(LoadLe16(&payload[6]) & 0x3FFF),
                   static_cast<int>(LoadLe16(&payload[8]) & 0x3FFF)};
  } else {
    if (payload[0] != 0x2F)
      return absl::InvalidArgumentError("WebP: the VP8L chunk begins with a wrong signature");
    const uint32_t bits = LoadLe32(&payload[1]);
    found.image = {static_cast<int>(bits & 0x3FFF) + 1, static_cast<int>(bits >> 14 & 0x3FFF) + 1};
    found.has_alpha = (bits >> 28 & 1) != 0;
    found.lossless = true;
  }
  if (found.canvas != Size{} && found.canvas != found.image)
    return absl::InvalidArgumentError(absl::StrCat("WebP: the frame is ", found.image.width, " x ",
                                                   found.image.height, " px, the canvas ",
                                                   found.canvas.width, " x ", found.canvas.height));
  return absl::OkStatus();
}

size_t HeaderBytesOf(uint32_t frame_type) {
  if (frame_type == FourCc("VP8 ")) return kVp8HeaderBytes;
  return frame_type == FourCc("VP8L") ? kVp8lHeaderBytes : 0;
}

// Walks as far as `prefix` goes; found_pixels tells whether this was far enough.
absl::StatusOr<Container> Walk(std::span<const uint8_t> prefix, const DecodeLimits& limits) {
  Container found;
  while (prefix.size() >= found.position + kChunkHeaderBytes) {
    const bool first = found.position == kFileHeaderBytes;
    const uint32_t type = LoadLe32(&prefix[found.position]);
    const size_t length = LoadLe32(&prefix[found.position + 4]);
    const std::span<const uint8_t> payload = prefix.subspan(found.position + kChunkHeaderBytes);

    if (type == FourCc("VP8 ") || type == FourCc("VP8L") || type == FourCc("ALPH")) {
      if (length < HeaderBytesOf(type) || (first && type == FourCc("ALPH")))
        return absl::InvalidArgumentError("WebP: the first frame is cut short or misplaced");
      if (payload.size() >= HeaderBytesOf(type)) RETURN_IF_ERROR(ParseFrame(type, payload, found));
      return found;
    }
    if (first != (type == FourCc("VP8X")) || (first && length != kVp8xBytes))
      return absl::InvalidArgumentError("WebP: the file begins with no VP8, VP8L or VP8X chunk");
    const size_t end = found.position + kChunkHeaderBytes + length + (length & 1);
    RETURN_IF_ERROR(CheckMetadataBytes(kWebp, end, limits));
    if (prefix.size() < end) break;
    if (first) RETURN_IF_ERROR(ParseVp8x(payload, limits, found));
    if (found.is_animated) return found;
    if (type == FourCc("ICCP") && found.announced.icc && found.icc_profile.empty())
      found.icc_profile = payload.first(length);
    found.position = end;
  }
  return found;
}

// The decoder holds the encoded file, its output, and its working memory: nothing more for lossy
// colour, ARGB for lossless, as much and the plane for alpha. Bytes a pixel as measured.
size_t DecoderBytes(const Container& found, size_t file_bytes, const ImageHeader& header) {
  const ImageSpec& spec = header.spec;
  const size_t pixels = static_cast<size_t>(spec.size().Area());
  const size_t working_bytes = found.lossless ? 4 : found.has_alpha ? 7 : 0;
  size_t bytes = kLibwebpBytes + header.prefix_bytes + 2 * file_bytes +
                 pixels * (spec.channels + working_bytes);
  // The file once more, while its last chunks or the size of its tables are looked for.
  if (found.announced.late()) bytes += 3 * file_bytes + header.metadata_bytes;
  if (found.lossless || found.has_alpha) bytes += file_bytes + HuffmanTableBytes(spec.size());
  if (header.orientation != Orientation::kIdentity) bytes += UprightBytes(StoredSpec(header));
  return bytes;
}

}  // namespace

std::optional<std::span<const uint8_t>> FindWebpChunk(std::span<const uint8_t> file,
                                                      std::string_view type) {
  size_t position = kFileHeaderBytes;
  while (file.size() >= position + kChunkHeaderBytes) {
    const size_t length = LoadLe32(&file[position + 4]);
    const std::span<const uint8_t> rest = file.subspan(position + kChunkHeaderBytes);
    if (rest.size() < length) break;
    if (LoadLe32(&file[position]) == FourCc(type)) return rest.first(length);
    position += kChunkHeaderBytes + length + (length & 1);
  }
  return std::nullopt;
}

WebpAnnounced AnnouncedInWebp(std::span<const uint8_t> prefix) {
  const auto vp8x = FindWebpChunk(prefix, "VP8X");
  return vp8x.has_value() && vp8x->size() == kVp8xBytes ? AnnouncedBy((*vp8x)[0]) : WebpAnnounced();
}

std::span<const uint8_t> WebpProfile(std::span<const uint8_t> prefix) {
  const auto profile = FindWebpChunk(prefix, "ICCP");
  if (!profile.has_value() || !AnnouncedInWebp(prefix).icc) return {};
  for (const std::string_view pixels : {"ALPH", "VP8 ", "VP8L"}) {
    const auto found = FindWebpChunk(prefix, pixels);
    if (found.has_value() && found->data() < profile->data()) return {};
  }
  return *profile;
}

std::string WebpExif(std::span<const uint8_t> file) {
  const auto chunk = FindWebpChunk(file, "EXIF");
  if (!chunk.has_value() || !AnnouncedInWebp(file).exif) return {};
  return std::string(WithoutExifBegin(
      std::string_view(reinterpret_cast<const char*>(chunk->data()), chunk->size())));
}

std::string WebpXmp(std::span<const uint8_t> file) {
  const auto chunk = FindWebpChunk(file, "XMP ");
  if (!chunk.has_value() || !AnnouncedInWebp(file).xmp) return {};
  return {chunk->begin(), chunk->end()};
}

WebpLeftOut::WebpLeftOut(std::span<const uint8_t> prefix) : skip_(kFileHeaderBytes) {
  const auto vp8x = FindWebpChunk(prefix, "VP8X");
  if (vp8x.has_value() && !vp8x->empty()) flags_ = (*vp8x)[0];
}

void WebpLeftOut::Pass(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    size_t count = std::min<uint64_t>(skip_, bytes.size());
    skip_ -= count;
    if (count == 0) {
      count = FillHead(head_, bytes, kChunkHeaderBytes);
      if (head_.size() == kChunkHeaderBytes) {
        BeginChunk(LoadLe32(head_.data()), LoadLe32(&head_[4]));
        head_.clear();
      }
    }
    bytes = bytes.subspan(count);
  }
}

void WebpLeftOut::BeginChunk(uint32_t type, uint64_t length) {
  constexpr uint32_t kPixels[] = {FourCc("ALPH"), FourCc("VP8 "), FourCc("VP8L")};
  skip_ = length + (length & 1);
  const bool is_animated = (flags_ & kAnimationFlag) != 0;
  if (is_animated && type == FourCc("ANMF")) {
    // The chunks within it come next, as those of a still image do.
    skip_ = std::min<uint64_t>(length, kFrameHeaderBytes);
    std::erase_if(expected_, [&](uint32_t seen) { return std::ranges::count(kPixels, seen) > 0; });
    return;
  }
  const WebpAnnounced announced = AnnouncedBy(flags_);
  const bool is_announced = (type != FourCc("ICCP") || announced.icc) &&
                            (type != FourCc("EXIF") || announced.exif) &&
                            (type != FourCc("XMP ") || announced.xmp);
  const auto has_come = [this](uint32_t seen) { return std::ranges::count(expected_, seen) > 0; };
  const bool has_pixels = has_come(FourCc("VP8 ")) || has_come(FourCc("VP8L"));
  const bool counts =
      type == FourCc("VP8X") || (std::ranges::count(kPixels, type) > 0 && !has_pixels) ||
      (type == FourCc("ICCP") && (is_animated || !has_pixels)) || type == FourCc("EXIF") ||
      type == FourCc("XMP ") || (type == FourCc("ANIM") && is_animated);
  if (counts && is_announced && !has_come(type)) {
    expected_.push_back(type);
  } else {
    const std::string_view name(reinterpret_cast<const char*>(head_.data()), sizeof(type));
    (is_announced ? chunks_ : unannounced_).Add(name.substr(0, name.find_last_not_of(' ') + 1));
  }
}

void WebpLeftOut::Warn(std::vector<std::string>& warnings) const {
  if (!chunks_.empty())
    warnings.push_back(absl::StrCat("WebP: chunks are left out: ", chunks_.Names()));
  if (!unannounced_.empty())
    warnings.push_back(
        absl::StrCat("WebP: chunks that the file's header (VP8X) does not announce are left out: ",
                     unannounced_.Names()));
}

size_t WebpFileBytes(std::span<const uint8_t> prefix) {
  return kRiffHeaderBytes + LoadLe32(&prefix[4]);
}

std::span<const uint8_t> WithinWebpFile(std::span<const uint8_t> prefix) {
  return prefix.first(std::min(prefix.size(), WebpFileBytes(prefix)));
}

size_t MaxOrientedBytes(const DecodeLimits& limits) {
  return std::max(limits.max_metadata_bytes, limits.max_animation_bytes);
}

absl::StatusOr<std::optional<ImageHeader>> ParseWebpHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits,
                                                           bool is_whole) {
  ASSIGN_OR_RETURN(const Container found, Walk(prefix, limits));
  if (found.is_animated) return ParseWebpAnimationHeader(prefix, limits, is_whole);
  if (!found.found_pixels) return std::nullopt;
  RETURN_IF_ERROR(CheckImageSize(kWebp, found.image.width, found.image.height, limits));
  const size_t file_bytes = WebpFileBytes(prefix);
  ImageHeader header;
  header.format = ImageFormat::kWebp;
  header.lossless_webp = found.lossless;
  header.spec = {found.image.width, found.image.height, found.has_alpha ? 4 : 3, SampleType::kU8};
  header.prefix_bytes = HeaderBufferBytes(found.position);
  if (found.announced.exif && file_bytes <= MaxOrientedBytes(limits)) {
    // The orientation, and with it the size, stands after the pixels. A file beyond the limit keeps
    // the orientation in its EXIF, with a warning.
    const std::span<const uint8_t> file = WithinWebpFile(prefix);
    if (!is_whole && file.size() < file_bytes && !FindWebpChunk(file, "EXIF").has_value())
      return std::nullopt;
    header.orientation = ExifOrientation(AsBytes(WebpExif(file))).value_or(Orientation::kIdentity);
    header.prefix_bytes = HeaderBufferBytes(file_bytes);
    if (SwapsSides(header.orientation)) std::swap(header.spec.width_px, header.spec.height_px);
  }
  header.metadata_bytes = found.icc_profile.size();
  if (found.announced.late())
    header.metadata_bytes += std::min(file_bytes, limits.max_metadata_bytes);
  header.decoder_bytes = DecoderBytes(found, file_bytes, header);
  return header;
}

absl::StatusOr<bool> CheckHuffmanTables(std::span<const uint8_t> prefix, Size image) {
  size_t position = kFileHeaderBytes;
  while (prefix.size() > position + kChunkHeaderBytes) {
    const uint32_t type = LoadLe32(&prefix[position]);
    const size_t length = LoadLe32(&prefix[position + 4]);
    position += kChunkHeaderBytes;
    const bool whole = prefix.size() >= position + length;
    const std::span<const uint8_t> payload =
        prefix.subspan(position, whole ? length : prefix.size() - position);
    position += length + (length & 1);
    if (type == FourCc("VP8 ")) return true;

    const bool lossless_alpha =
        type == FourCc("ALPH") && !payload.empty() && (payload[0] & 3) == kLosslessAlpha;
    if (type == FourCc("VP8L") || lossless_alpha) {
      const size_t header = lossless_alpha ? kAlphHeaderBytes : kVp8lHeaderBytes;
      ASSIGN_OR_RETURN(
          const std::optional<size_t> blocks,
          CountHuffmanBlocks(payload.subspan(std::min(header, payload.size())), image));
      if (!blocks.has_value() && whole)
        return absl::InvalidArgumentError("WebP: the lossless data are cut short");
      if (!blocks.has_value()) return false;
      if (*blocks > kMaxHuffmanBlocks)
        return absl::ResourceExhaustedError(absl::StrCat("WebP: the image has Huffman codes for ",
                                                         *blocks, " blocks; the limit is ",
                                                         kMaxHuffmanBlocks));
      if (!lossless_alpha) return true;
    }
    if (!whole) return false;
  }
  return false;
}

}  // namespace upscaled
