// The chunks of a PNG file up to the pixels. Source: PNG specification (third edition), sections 5
// and 11.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/png_bomb_guard.h"

namespace upscaled {
namespace {

constexpr char kPng[] = "PNG";
constexpr size_t kSignatureBytes = 8;
constexpr size_t kIhdrBytes = 13;
// zlib's window and state, twice, libpng's structures, the input buffer.
constexpr size_t kLibpngBytes = 256 << 10;
constexpr size_t kMaxInflation = 1032;  // deflate's

constexpr uint32_t ChunkType(const char (&name)[5]) {
  return uint32_t(name[0]) << 24 | name[1] << 16 | name[2] << 8 | name[3];
}

enum ColorType { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6 };

struct Ihdr {
  uint32_t width, height;
  int bit_depth, color_type;
  bool interlaced;
};

bool IsBitDepthOf(int color_type, int depth) {
  switch (color_type) {
    case kGray:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case kPalette:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case kRgb:
    case kGrayAlpha:
    case kRgba:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

// `data`: the whole chunk, whose type is still to be checked.
absl::StatusOr<Ihdr> ParseIhdr(const uint8_t* data, const DecodeLimits& limits) {
  if (LoadBe32(data) != kIhdrBytes || LoadBe32(data + 4) != ChunkType("IHDR"))
    return absl::InvalidArgumentError("PNG: the first chunk is no IHDR");
  data += kPngChunkHeaderBytes;
  const Ihdr ihdr = {LoadBe32(data), LoadBe32(data + 4), data[8], data[9], data[12] != 0};
  if (!IsBitDepthOf(ihdr.color_type, ihdr.bit_depth))
    return absl::InvalidArgumentError(absl::StrCat("PNG: color type ", ihdr.color_type, " with ",
                                                   ihdr.bit_depth, " bits is not defined"));
  if (data[10] != 0 || data[11] != 0 || data[12] > 1)
    return absl::InvalidArgumentError("PNG: undefined compression, filter or interlace method");
  RETURN_IF_ERROR(CheckImageSize(kPng, ihdr.width, ihdr.height, limits));
  return ihdr;
}

// Whether a tRNS chunk of `length` bytes counts, as it does to libpng and so to browsers; others
// they pass over. `palette_entries`: of the PLTE before it.
bool IsTransparencyOf(const Ihdr& ihdr, size_t length, size_t palette_entries) {
  switch (ihdr.color_type) {
    case kGray:
      return length == 2;
    case kRgb:
      return length == 6;
    case kPalette:
      return length > 0 && length <= palette_entries;
    default:
      return false;
  }
}

ImageHeader MakeHeader(const Ihdr& ihdr, bool has_trns, size_t pixels_begin, size_t profile_bytes) {
  ImageHeader header;
  header.format = ImageFormat::kPng;
  const bool gray = ihdr.color_type == kGray || ihdr.color_type == kGrayAlpha;
  const bool alpha = ihdr.color_type == kGrayAlpha || ihdr.color_type == kRgba || has_trns;
  header.spec = {static_cast<int>(ihdr.width), static_cast<int>(ihdr.height),
                 (gray ? 1 : 3) + (alpha ? 1 : 0),
                 ihdr.bit_depth == 16 ? SampleType::kU16 : SampleType::kU8};
  const size_t row_bytes = header.spec.row_bytes();
  // libpng keeps this row and the one above it, unfiltered.
  header.prefix_bytes = HeaderBufferBytes(pixels_begin);
  header.profile_bytes = profile_bytes;
  header.decoder_bytes = kLibpngBytes + header.prefix_bytes + 2 * profile_bytes + 3 * row_bytes;
  if (ihdr.interlaced) header.decoder_bytes += row_bytes * ihdr.height;
  return header;
}

}  // namespace

absl::StatusOr<std::optional<ImageHeader>> ParsePngHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits) {
  size_t position = kSignatureBytes + kPngChunkHeaderBytes + kIhdrBytes;
  if (prefix.size() < position) return std::nullopt;
  ASSIGN_OR_RETURN(const Ihdr ihdr, ParseIhdr(prefix.data() + kSignatureBytes, limits));
  position += kPngCrcBytes;

  bool has_trns = false;
  size_t palette_entries = 0;
  size_t profile_bytes = 0;
  while (prefix.size() >= position + kPngChunkHeaderBytes) {
    const uint32_t length = LoadBe32(&prefix[position]);
    const uint32_t type = LoadBe32(&prefix[position + 4]);
    if (type == ChunkType("IDAT")) {
      PngBombGuard guard(limits);
      RETURN_IF_ERROR(guard.Follow(prefix.first(position)));
      return MakeHeader(ihdr, has_trns, position, profile_bytes);
    }
    if (type == ChunkType("IEND")) return absl::InvalidArgumentError("PNG: it has no pixels");
    if (length > INT32_MAX)
      return absl::InvalidArgumentError(
          absl::StrCat("PNG: a chunk of ", length, " bytes; the format allows 2147483647"));
    if (type == ChunkType("PLTE")) {
      palette_entries = std::min<size_t>(length / 3, size_t{1} << ihdr.bit_depth);
      if (ihdr.color_type == kRgb) has_trns = false;  // libpng takes back what came before
    }
    if (type == ChunkType("tRNS") && IsTransparencyOf(ihdr, length, palette_entries))
      has_trns = true;
    if (type == ChunkType("iCCP"))
      profile_bytes = std::min(length * kMaxInflation, limits.max_metadata_bytes);
    position += kPngChunkHeaderBytes + length + kPngCrcBytes;
    RETURN_IF_ERROR(CheckMetadataBytes(kPng, position, limits));
  }
  return std::nullopt;
}

}  // namespace upscaled
