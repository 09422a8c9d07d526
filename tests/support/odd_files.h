// Files unknown to our encoders, made with libpng and libjpeg directly.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/image/codec.h"
#include "engine/image/image.h"

namespace upscaled::test {

struct PngFile {
  int width = 0, height = 0;
  int bit_depth = 8;
  int color_type = 0;  // as in IHDR
  bool interlaced = false;
  std::vector<uint8_t> palette;                      // R, G, B of each entry
  std::vector<uint8_t> palette_alpha;                // tRNS of a palette
  std::optional<std::vector<uint16_t>> transparent;  // tRNS of gray or RGB: the samples
  std::vector<std::vector<uint8_t>> rows;            // packed as the format packs them
};

// Random pixels of every type in IHDR; palettes are full, tRNS is left to the caller.
PngFile RandomPng(int width, int height, int bit_depth, int color_type, std::mt19937& random);
std::string WritePng(const PngFile& file);
// The stored samples of one pixel.
std::vector<uint16_t> StoredPixel(const PngFile& file, int x, int y);
// The right pixels of a decoder, worked out sample by sample.
Image ExpectedPixels(const PngFile& file);

// A chunk with its length and CRC, to be put into a PNG file.
std::string PngChunk(std::string_view type, std::string_view data);
// `begin` and then zeros up to `total_bytes`, in zlib's format; takes little memory itself.
std::string DeflateZeros(std::string_view begin, size_t total_bytes);

enum class JpegColor { kGray, kYcc, kRgb, kCmyk, kYcck };

struct JpegFile {
  JpegColor color = JpegColor::kYcc;
  bool progressive = false;
  bool scan_per_component = false;  // sequential, but each component comes in its own scan
  bool arithmetic = false;
  bool adobe_marker = true;
  int restart_interval = 0;
  Size luma_sampling = {1, 1};
  int quality = 100;
  std::string exif;  // APP1 payload
  std::string icc_profile;
};

// `samples`: 1 (gray), 3 (RGB) or 4 channels (CMYK as stored), 8 bits.
std::string WriteJpeg(const JpegFile& file, ImageView samples);

// An EXIF segment with an orientation.
std::string ExifSegment(int orientation, bool big_endian);

// A colour profile of matching size, accepted by libpng: a header, an empty tag table, padding.
std::string TestProfile(bool gray, size_t bytes);

}  // namespace upscaled::test
