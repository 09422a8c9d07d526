// Source: WebP container specification; RFC 6386, section 9.1 (VP8); WebP lossless specification,
// section 3 (VP8L).
#include "engine/image/webp_header.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/webp_lossless.h"

namespace upscaled {
namespace {

constexpr char kWebp[] = "WebP";
constexpr size_t kFileHeaderBytes = 12;
constexpr size_t kChunkHeaderBytes = 8;
constexpr size_t kVp8xBytes = 10;
constexpr size_t kVp8HeaderBytes = 10;
constexpr size_t kVp8lHeaderBytes = 5;
constexpr size_t kAlphHeaderBytes = 1;
constexpr uint8_t kLosslessAlpha = 1;  // ALPH's compression
constexpr uint8_t kAnimationFlag = 0x02;
// libwebp's structures.
constexpr size_t kLibwebpBytes = 4 << 20;

constexpr uint32_t FourCc(const char (&name)[5]) {
  return uint32_t(name[0]) | name[1] << 8 | name[2] << 16 | uint32_t(name[3]) << 24;
}

// The chunks that the walk has found so far.
struct Container {
  Size canvas;  // from VP8X; empty without
  std::span<const uint8_t> icc_profile;
  Size image;
  bool has_alpha = false;
  bool lossless = false;
  bool found_pixels = false;
  size_t position = kFileHeaderBytes;
};

absl::Status ParseVp8x(std::span<const uint8_t> payload, const DecodeLimits& limits,
                       Container& found) {
  if (payload[0] & kAnimationFlag)
    return absl::UnimplementedError("WebP: animated images are not read");
  found.canvas = {static_cast<int>(LoadLe24(&payload[4]) + 1),
                  static_cast<int>(LoadLe24(&payload[7]) + 1)};
  return CheckImageSize(kWebp, found.canvas.width, found.canvas.height, limits);
}

// Size and alpha of the frame that `payload` begins. ALPH comes before a VP8 chunk and has no size.
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

// Walks as far as `prefix` goes; found_pixels tells whether that was far enough.
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
    if (type == FourCc("ICCP") && found.icc_profile.empty())
      found.icc_profile = payload.first(length);
    found.position = end;
  }
  return found;
}

// The decoder holds the encoded file, its output, and what it decodes into: nothing more for lossy
// colour, ARGB for lossless, as much and the plane for alpha. Bytes a pixel as measured.
size_t DecoderBytes(const Container& found, size_t file_bytes, const ImageSpec& spec) {
  const size_t pixels = static_cast<size_t>(spec.size().Area());
  const size_t working_bytes = found.lossless ? 4 : found.has_alpha ? 7 : 0;
  const size_t bytes = kLibwebpBytes + HeaderBufferBytes(found.position) + 2 * file_bytes +
                       pixels * (spec.channels + working_bytes);
  if (!found.lossless && !found.has_alpha) return bytes;
  // The file once more, while the tables' size is looked for.
  return bytes + file_bytes + HuffmanTableBytes(spec.size());
}

}  // namespace

absl::StatusOr<std::optional<ImageHeader>> ParseWebpHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits) {
  ASSIGN_OR_RETURN(const Container found, Walk(prefix, limits));
  if (!found.found_pixels) return std::nullopt;
  RETURN_IF_ERROR(CheckImageSize(kWebp, found.image.width, found.image.height, limits));
  ImageHeader header;
  header.format = ImageFormat::kWebp;
  header.spec = {found.image.width, found.image.height, found.has_alpha ? 4 : 3, SampleType::kU8};
  header.prefix_bytes = HeaderBufferBytes(found.position);
  header.profile_bytes = found.icc_profile.size();
  header.decoder_bytes = DecoderBytes(found, LoadLe32(&prefix[4]), header.spec);
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

std::span<const uint8_t> WebpIccProfile(std::span<const uint8_t> prefix) {
  DecodeLimits none;
  none.max_pixels = INT64_MAX;
  none.max_side_px = INT32_MAX;
  none.max_metadata_bytes = SIZE_MAX;
  const absl::StatusOr<Container> found = Walk(prefix, none);
  return found.ok() ? found->icc_profile : std::span<const uint8_t>();
}

}  // namespace upscaled
