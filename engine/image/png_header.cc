// The chunks of a PNG file up to the pixels. Source: PNG specification (third edition), sections 5
// and 11.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/colour_profile.h"
#include "engine/image/endian.h"
#include "engine/image/exif.h"
#include "engine/image/frame_canvas.h"
#include "engine/image/left_out.h"
#include "engine/image/orientation.h"
#include "engine/image/piece_deflater.h"
#include "engine/image/png_bomb_guard.h"
#include "engine/image/png_frames.h"
#include "engine/image/png_metadata.h"

namespace upscaled {
namespace {

constexpr char kPng[] = "PNG";
constexpr size_t kIhdrBytes = 13;
// zlib's window and state, twice, libpng's structures, the input buffer.
constexpr size_t kLibpngBytes = 256 << 10;

constexpr uint32_t ChunkType(std::string_view name) {
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

// `data`: the whole chunk, with a type still to be checked.
absl::StatusOr<Ihdr> ParseIhdr(const uint8_t* data, const DecodeLimits& limits) {
  if (LoadBe32(data + 4) == ChunkType("CgBI"))
    return absl::UnimplementedError(
        "PNG: this is a PNG for iPhones (CgBI), with pixels in a form of its own, which is not "
        "read; convert it with Xcode's pngcrush -revert-iphone-optimizations");
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

// Chunks before the pixels.
struct PngExtras {
  bool transparency = false;
  uint32_t frames = 0;          // of an animation, by acTL
  bool still_is_frame = false;  // the first, since fcTL stands before the pixels
  std::optional<Orientation> orientation;
  std::string_view hdr;
  LeftOut others;  // types of chunks
};

// `chunk` is whole.
void ParsePngExtra(std::string_view type, std::span<const uint8_t> chunk, PngExtras& extras) {
  constexpr std::string_view kAnimation[] = {"acTL", "fcTL"};
  constexpr std::string_view kDecoded[] = {"PLTE", "tRNS", "iCCP"};
  const std::span<const uint8_t> typed = chunk.subspan(4, chunk.size() - 4 - kPngCrcBytes);
  const std::span<const uint8_t> data = typed.subspan(4);
  // The decoder leaves out a damaged chunk, too.
  if (IsPngMetadata(type) && LoadBe32(&chunk[chunk.size() - kPngCrcBytes]) == Crc32(typed)) {
    if (type == "eXIf" && !extras.orientation.has_value()) {
      const bool prefixed = data.size() >= kExifBegin.size() &&
                            std::equal(kExifBegin.begin(), kExifBegin.end(), data.begin());
      extras.orientation = ExifOrientation(data.subspan(prefixed ? kExifBegin.size() : 0));
    }
    if (type == "cICP")
      extras.hdr = HdrTransferOf(std::array{ColourChunk{"cICP", {data.begin(), data.end()}}});
  }
  if (std::ranges::count(kAnimation, type) > 0) {
    if (type == "acTL" && extras.frames == 0 && data.size() >= kAcTlBytes)
      extras.frames = LoadBe32(data.data());  // of the first, as the frames' reader
    extras.still_is_frame = extras.still_is_frame || type == "fcTL";
  } else if (!IsPngMetadata(type) && std::ranges::count(kDecoded, type) == 0) {
    extras.others.Add(type);
  }
}

// About the frames of an animation read as its still image.
void WarnOfFrames(const PngExtras& extras, const DecodeLimits& limits, ImageHeader& header) {
  const uint32_t left_out = extras.frames - (extras.still_is_frame ? 1 : 0);
  if (extras.frames == 0 || left_out == 0) return;
  header.may_move = true;
  if (!limits.warns_of_frames) return;
  header.warnings.push_back(absl::StrCat(
      "PNG: it is an animation of ", extras.frames,
      " frames: ", extras.still_is_frame ? "the first" : "the image that stands for it",
      " is computed, ", left_out, " left out"));
}

ImageHeader MakeHeader(const Ihdr& ihdr, const PngExtras& extras, size_t pixels_begin,
                       size_t inflated_bytes) {
  ImageHeader header;
  if (!extras.others.empty())
    header.warnings.push_back(absl::StrCat("PNG: chunks are left out: ", extras.others.Names()));
  header.hdr = extras.hdr;
  header.orientation = extras.orientation.value_or(Orientation::kIdentity);
  header.format = ImageFormat::kPng;
  const bool gray = ihdr.color_type == kGray || ihdr.color_type == kGrayAlpha;
  const bool alpha =
      ihdr.color_type == kGrayAlpha || ihdr.color_type == kRgba || extras.transparency;
  header.spec = {static_cast<int>(ihdr.width), static_cast<int>(ihdr.height),
                 (gray ? 1 : 3) + (alpha ? 1 : 0),
                 ihdr.bit_depth == 16 ? SampleType::kU16 : SampleType::kU8};
  const size_t row_bytes = header.spec.row_bytes();
  // libpng keeps this row and the one above it, unfiltered.
  header.prefix_bytes = HeaderBufferBytes(pixels_begin);
  // Latin-1 text grows when it becomes UTF-8. A block is held by libpng, as text and as metadata.
  header.metadata_bytes = 2 * (pixels_begin + inflated_bytes) + kMaxLateMetadataBytes;
  header.decoder_bytes = kLibpngBytes + header.prefix_bytes + 2 * header.metadata_bytes +
                         3 * kMaxLateMetadataBytes + 3 * row_bytes;
  if (ihdr.interlaced) header.decoder_bytes += row_bytes * ihdr.height;
  if (header.orientation != Orientation::kIdentity)
    header.decoder_bytes += UprightBytes(header.spec);
  if (SwapsSides(header.orientation)) std::swap(header.spec.width_px, header.spec.height_px);
  return header;
}

// Turns the header of an image into its animation's.
absl::StatusOr<std::optional<ImageHeader>> DescribeAnimation(std::span<const uint8_t> prefix,
                                                             const DecodeLimits& limits,
                                                             bool is_whole, ImageHeader header) {
  ASSIGN_OR_RETURN(const std::optional<PngAnimation> animation,
                   ParsePngAnimation(prefix, limits, is_whole));
  if (!animation.has_value()) return std::nullopt;
  if (animation->needs_alpha && !header.spec.has_alpha()) ++header.spec.channels;
  RETURN_IF_ERROR(DescribeFrames(kPng, animation->animation, limits, header));
  header.prefix_bytes = HeaderBufferBytes(prefix.size());
  // A frame's file of its own, and the list of chunks.
  header.decoder_bytes += header.prefix_bytes + 4 * prefix.size() + CanvasBytes(header);
  return header;
}

}  // namespace

absl::StatusOr<std::optional<ImageHeader>> ParsePngHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits,
                                                          bool is_whole) {
  size_t position = kPngSignatureBytes + kPngChunkHeaderBytes + kIhdrBytes;
  if (prefix.size() < position) return std::nullopt;
  ASSIGN_OR_RETURN(const Ihdr ihdr, ParseIhdr(prefix.data() + kPngSignatureBytes, limits));
  position += kPngCrcBytes;

  PngExtras extras;
  size_t palette_entries = 0;
  while (prefix.size() >= position + kPngChunkHeaderBytes) {
    const uint32_t length = LoadBe32(&prefix[position]);
    const uint32_t type = LoadBe32(&prefix[position + 4]);
    if (type == ChunkType("IDAT")) {
      PngBombGuard guard(limits);
      RETURN_IF_ERROR(guard.Follow(prefix.first(position)));
      ImageHeader header = MakeHeader(ihdr, extras, position, guard.inflated_bytes());
      if (extras.frames > 1 && limits.frame != 1)
        return DescribeAnimation(prefix, limits, is_whole, std::move(header));
      WarnOfFrames(extras, limits, header);
      return header;
    }
    if (type == ChunkType("IEND")) return absl::InvalidArgumentError("PNG: it has no pixels");
    if (length > INT32_MAX)
      return absl::InvalidArgumentError(
          absl::StrCat("PNG: a chunk of ", length, " bytes; the format allows 2147483647"));
    if (type == ChunkType("PLTE")) {
      palette_entries = std::min<size_t>(length / 3, size_t{1} << ihdr.bit_depth);
      if (ihdr.color_type == kRgb) extras.transparency = false;  // libpng takes it back
    }
    if (type == ChunkType("tRNS") && IsTransparencyOf(ihdr, length, palette_entries))
      extras.transparency = true;
    const size_t chunk_bytes = kPngChunkHeaderBytes + length + kPngCrcBytes;
    RETURN_IF_ERROR(CheckMetadataBytes(kPng, position + chunk_bytes, limits));
    if (prefix.size() < position + chunk_bytes) return std::nullopt;
    const std::span<const uint8_t> chunk = prefix.subspan(position, chunk_bytes);
    ParsePngExtra({reinterpret_cast<const char*>(&chunk[4]), 4}, chunk, extras);
    position += chunk_bytes;
  }
  return std::nullopt;
}

}  // namespace upscaled
