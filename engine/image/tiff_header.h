// A TIFF file by its first directory. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

enum class TiffColour : uint8_t { kGray, kInvertedGray, kRgb, kPalette, kCmyk };

// A part of the file.
struct TiffBlock {
  uint64_t offset = 0, bytes = 0;
};

struct TiffLayout {
  Size size;
  int bits = 1;     // of a sample
  int samples = 1;  // of a pixel
  TiffColour colour = TiffColour::kGray;
  bool is_ycbcr = false;  // JPEG data, which the library turns into RGB
  int alpha_sample = -1;  // -1: there is none
  bool premultiplied = false;
  uint32_t compression = 1;
  bool separate = false;  // one plane per sample
  bool tiled = false;
  Size cell;  // a tile, or a strip of the image's width
  Orientation orientation = Orientation::kIdentity;
  std::optional<PixelDensity> density;
  std::vector<uint16_t> palette;  // all red, all green, all blue
  TiffBlock icc, xmp, iptc, photoshop;
  std::string profile_head;  // the profile's first bytes, of CMYK
  uint64_t directory = 0, next_directory = 0;
  uint64_t header_end = 0;      // of the bytes that the layout was read from
  uint64_t file_end = 0;        // of the first image and its metadata
  uint64_t stated_end = 0;      // of all that the directories state; 0: there are further ones
  uint64_t metadata_bytes = 0;  // of profile, XMP, IPTC and EXIF
  uint64_t largest_cell = 0;    // the bytes that it takes in the file
  std::vector<std::string> warnings;

  int planes() const { return separate ? samples : 1; }
  // Decoded bytes of a row of a cell, in one plane.
  size_t cell_row_bytes() const {
    const auto row_samples = static_cast<size_t>(cell.width) * (separate ? 1 : samples);
    return (row_samples * bits + 7) / 8;
  }
  size_t cell_bytes() const { return cell_row_bytes() * cell.height; }
  int64_t cells() const {
    const int64_t across = (size.width + cell.width - 1) / cell.width;
    return across * ((size.height + cell.height - 1) / cell.height) * planes();
  }
};

// nullopt: more bytes are needed. `is_whole`: no more follow. Errors as ParseImageHeader.
absl::StatusOr<std::optional<TiffLayout>> ParseTiffLayout(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits,
                                                          bool is_whole);

// The stored image's samples; see ImageHeader.
ImageSpec TiffSpec(const TiffLayout& layout);

}  // namespace upscaled
