// Our own code, since no library of Debian reads all headers from OS/2 to version 5, masks, run
// lengths and profiles.
// Source: Windows GDI, BITMAPFILEHEADER and BITMAPCOREHEADER to BITMAPV5HEADER; OS/2 2.x bitmaps.
#include "engine/image/bmp_header.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/buffered_source.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"

namespace upscaled {
namespace {

constexpr char kBmp[] = "BMP";
constexpr size_t kBmpFileHeaderBytes = 14;
constexpr size_t kCoreBytes = 12, kOs2ShortBytes = 16, kInfoBytes = 40, kV2Bytes = 52,
                 kV3Bytes = 56, kOs2Bytes = 64, kV4Bytes = 108, kV5Bytes = 124;
// Values of the compression.
constexpr uint32_t kUncompressed = 0, kRle8 = 1, kRle4 = 2, kBitfields = 3, kAlphaBitfields = 6;
// Values of the colour space.
constexpr uint32_t kCalibratedSpace = 0, kEmbeddedSpace = 0x4D424544, kLinkedSpace = 0x4C494E4B;

absl::Status BmpUnread(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("BMP: ", what, " is not read"));
}

// Codings by name that are not read. Their files may state 0 bits a pixel.
absl::Status CheckCoding(uint32_t compression, bool is_os2) {
  struct Named {
    bool os2;
    uint32_t compression;
    const char* name;
  };
  constexpr Named kRefused[] = {{false, 4, "a JPEG file"},   {false, 5, "a PNG file"},
                                {false, 11, "CMYK"},         {false, 12, "CMYK in runs"},
                                {false, 13, "CMYK in runs"}, {true, 3, "Huffman codes"},
                                {true, 4, "runs of 24 bits"}};
  for (const Named& one : kRefused)
    if (one.os2 == is_os2 && one.compression == compression)
      return BmpUnread(absl::StrCat("compression ", compression, " (", one.name, " within it)"));
  return absl::OkStatus();
}

absl::Status CheckMasks(const BmpLayout& layout) {
  for (const uint32_t mask : layout.masks) {
    const uint32_t ones = mask >> (mask == 0 ? 0 : std::countr_zero(mask));
    if ((ones & (ones + 1)) != 0)
      return absl::InvalidArgumentError(
          absl::StrCat("BMP: the bits of a channel are scattered (mask ", absl::Hex(mask), ")"));
  }
  if (layout.masks[0] == 0 && layout.masks[1] == 0 && layout.masks[2] == 0)
    return absl::InvalidArgumentError("BMP: no bits of a pixel are its colour's");
  return absl::OkStatus();
}

// Sets coding and masks; the masks of a 40-byte header stand behind it, at `after`.
absl::Status ParseCompression(uint32_t compression, std::span<const uint8_t> header,
                              const uint8_t* after, BmpLayout& layout) {
  const int bits = layout.bits_per_pixel;
  const bool is_os2 = header.size() == kOs2Bytes;
  const bool masked = compression == kBitfields || compression == kAlphaBitfields;
  if (bits == 16) layout.masks = {0x7C00, 0x03E0, 0x001F, 0};
  if (bits == 24 || bits == 32) layout.masks = {0xFF0000, 0xFF00, 0xFF, 0};
  if (compression == kUncompressed) return absl::OkStatus();
  if (compression == kRle8 && bits == 8) {
    layout.coding = BmpCoding::kRle8;
  } else if (compression == kRle4 && bits == 4) {
    layout.coding = BmpCoding::kRle4;
  } else if (masked && !is_os2 && (bits == 16 || bits == 32)) {
    const bool inside = header.size() >= kV2Bytes;
    const uint8_t* const masks = inside ? header.data() + kInfoBytes : after;
    const bool alpha = inside ? header.size() >= kV3Bytes : compression == kAlphaBitfields;
    for (int i = 0; i < (alpha ? 4 : 3); ++i) layout.masks[i] = LoadLe32(masks + 4 * i);
    return CheckMasks(layout);
  } else {
    return BmpUnread(absl::StrCat("compression ", compression, " of ", bits, " bits a pixel"));
  }
  if (layout.top_down)
    return absl::InvalidArgumentError("BMP: run lengths are stored from top to bottom");
  return absl::OkStatus();
}

void ParseColourSpace(std::span<const uint8_t> header, BmpLayout& layout) {
  if (header.size() < kV4Bytes) return;
  const uint32_t space = LoadLe32(&header[56]);
  if ((space == kEmbeddedSpace || space == kLinkedSpace) && header.size() >= kV5Bytes) {
    const uint64_t offset = kBmpFileHeaderBytes + uint64_t{LoadLe32(&header[112])};
    const uint64_t bytes = LoadLe32(&header[116]);
    layout.profile_end = offset + bytes;
    if (space == kEmbeddedSpace) {
      layout.profile_offset = offset;
      layout.profile_bytes = bytes;
    }
  }
  const auto* const gamma = &header[96];
  layout.has_other_profile =
      space == kLinkedSpace || (space == kCalibratedSpace &&
                                std::any_of(gamma, gamma + 12, [](uint8_t b) { return b != 0; }));
}

// Sides and bits a pixel.
absl::Status ParseSize(std::span<const uint8_t> header, BmpLayout& layout) {
  if (header.size() == kCoreBytes) {
    layout.size = {static_cast<int>(LoadLe16(&header[4])), static_cast<int>(LoadLe16(&header[6]))};
    layout.bits_per_pixel = static_cast<int>(LoadLe16(&header[10]));
  } else {
    const auto height = static_cast<int32_t>(LoadLe32(&header[8]));
    layout.top_down = height < 0;
    // The smallest height has no positive one: INT32_MAX is beyond any limit, too.
    const int32_t rows = height < 0 ? -std::max(height, -INT32_MAX) : height;
    layout.size = {static_cast<int32_t>(LoadLe32(&header[4])), rows};
    layout.bits_per_pixel = static_cast<int>(LoadLe16(&header[14]));
  }
  constexpr int kBits[] = {1, 2, 4, 8, 16, 24, 32};
  if (std::ranges::count(kBits, layout.bits_per_pixel) == 0)
    return BmpUnread(absl::StrCat("an image of ", layout.bits_per_pixel, " bits a pixel"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<BmpLayout>> ParseBmpLayout(std::span<const uint8_t> prefix) {
  constexpr size_t kSizes[] = {kCoreBytes, kOs2ShortBytes, kInfoBytes, kV2Bytes,
                               kV3Bytes,   kOs2Bytes,      kV4Bytes,   kV5Bytes};
  if (prefix.size() < kBmpFileHeaderBytes + 4) return std::nullopt;
  const size_t header_bytes = LoadLe32(&prefix[kBmpFileHeaderBytes]);
  if (std::ranges::count(kSizes, header_bytes) == 0)
    return BmpUnread(absl::StrCat("a header of ", header_bytes, " bytes"));
  if (prefix.size() < kBmpFileHeaderBytes + header_bytes) return std::nullopt;
  const std::span<const uint8_t> header = prefix.subspan(kBmpFileHeaderBytes, header_bytes);

  BmpLayout layout;
  const bool has_fields = header_bytes >= kInfoBytes;
  const uint32_t compression = has_fields ? LoadLe32(&header[16]) : kUncompressed;
  RETURN_IF_ERROR(CheckCoding(compression, header_bytes == kOs2Bytes));
  RETURN_IF_ERROR(ParseSize(header, layout));
  size_t mask_bytes = 0;
  if (header_bytes == kInfoBytes && compression == kBitfields) mask_bytes = 12;
  if (header_bytes == kInfoBytes && compression == kAlphaBitfields) mask_bytes = 16;
  layout.palette_offset = kBmpFileHeaderBytes + header_bytes + mask_bytes;
  if (prefix.size() < layout.palette_offset) return std::nullopt;
  RETURN_IF_ERROR(ParseCompression(compression, header, header.data() + header_bytes, layout));

  layout.pixels_offset = std::max<size_t>(LoadLe32(&prefix[10]), layout.palette_offset);
  if (layout.bits_per_pixel <= 8) {
    const size_t all = size_t{1} << layout.bits_per_pixel;
    const size_t used = has_fields ? LoadLe32(&header[32]) : 0;
    layout.palette_entry_bytes = header_bytes == kCoreBytes ? 3 : 4;
    layout.palette_entries =
        std::min({used == 0 ? all : used, all,
                  (layout.pixels_offset - layout.palette_offset) / layout.palette_entry_bytes});
  }
  if (has_fields && LoadLe32(&header[24]) > 0 && LoadLe32(&header[28]) > 0)
    layout.density =
        PixelDensity{PixelDensity::Unit::kMetre, LoadLe32(&header[24]), LoadLe32(&header[28])};
  ParseColourSpace(header, layout);
  return layout;
}

absl::StatusOr<std::optional<ImageHeader>> ParseBmpHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits, bool) {
  ASSIGN_OR_RETURN(const std::optional<BmpLayout> layout, ParseBmpLayout(prefix));
  if (!layout.has_value()) return std::nullopt;
  RETURN_IF_ERROR(CheckImageSize(kBmp, layout->size.width, layout->size.height, limits));
  RETURN_IF_ERROR(CheckMetadataBytes(kBmp, layout->pixels_offset, limits));
  ImageHeader header;
  header.format = ImageFormat::kBmp;
  header.spec = {layout->size.width, layout->size.height, layout->has_alpha() ? 4 : 3,
                 SampleType::kU8};
  if (layout->has_other_profile)
    header.warnings.push_back(
        "BMP: its calibrated colours, or those of a profile in another file, are left out");
  header.metadata_bytes = std::min<uint64_t>(layout->profile_bytes, limits.max_metadata_bytes);
  header.prefix_bytes = HeaderBufferBytes(layout->palette_offset + 4 * layout->palette_entries);
  header.decoder_bytes = header.prefix_bytes + BufferedSource::kBytes + ImageBytes(header.spec) +
                         layout->stored_row_bytes() + 2 * header.metadata_bytes;
  return header;
}

}  // namespace upscaled
