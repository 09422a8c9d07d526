// Blocks of an image file other than its pixels, from a source to its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/image/image.h"
#include "engine/image/image_format.h"

namespace upscaled {

// Pixels per unit of length.
struct PixelDensity {
  enum class Unit : uint8_t { kAspect, kInch, kCentimetre, kMetre };  // kAspect: a ratio of sides
  Unit unit = Unit::kAspect;
  uint32_t x = 1, y = 1;
  friend bool operator==(const PixelDensity&, const PixelDensity&) = default;
};

// `value` pixels per `from` in pixels per `to`, rounded; neither is kAspect.
uint32_t ConvertDensity(uint32_t value, PixelDensity::Unit from, PixelDensity::Unit to);

// A PNG file's tEXt, zTXt or iTXt, or a JPEG file's comment (keyword "Comment").
struct ImageText {
  std::string keyword;  // Latin-1
  std::string text;     // UTF-8
  std::string language, translated_keyword;
  friend bool operator==(const ImageText&, const ImageText&) = default;
};

// A PNG chunk about the samples' colours: cICP, gAMA, cHRM, sRGB, mDCV or cLLI.
struct ColourChunk {
  std::string type;
  std::string data;
  friend bool operator==(const ColourChunk&, const ColourChunk&) = default;
};

// Empty members: the file has no such block.
struct ImageMetadata {
  std::string icc_profile;
  std::string exif;  // a TIFF file, from its byte order on
  std::string xmp;   // a packet, in UTF-8
  std::string iptc;  // data sets of IIM
  std::optional<PixelDensity> density;
  std::vector<ImageText> texts;
  std::vector<ColourChunk> colour_chunks;
  bool keeps_orientation = false;  // the pixels are not upright; `exif` tells how they lie
  friend bool operator==(const ImageMetadata&, const ImageMetadata&) = default;
};

// Adds the texts of `late` to `metadata`, and its XMP and IPTC if `metadata` has none. EXIF of
// `late` replaces a block that states only the resolution: MetadataForResult drops all other ones.
void AddMissing(ImageMetadata late, ImageMetadata& metadata);

// Blocks behind the pixels are kept up to here together.
inline constexpr size_t kMaxLateMetadataBytes = size_t{64} << 10;

// Texts kept of one file, and sentences about blocks not kept.
inline constexpr size_t kMaxTexts = 1000, kMaxBlockWarnings = 20;

// Bytes of all blocks together.
size_t BytesOf(const ImageMetadata& metadata);

enum class MetadataPolicy : uint8_t {
  kKeep,           // everything
  kStripLocation,  // everything but places: GPS in EXIF, and XMP, IPTC or text that tell of one
  kIcc,            // colours only
  kStrip,          // nothing
};

// Returns `metadata` as a result of `encoded` pixels in `format` carries them: applies `policy`,
// takes orientation and thumbnail out of EXIF, corrects dimensions, and turns blocks without a
// place in the format into others (colour chunks into a profile, text into comments, density into
// EXIF). Adds a sentence to `warnings` for each block lost although `policy` keeps it. `too_late`:
// the blocks became known after the first row, and the file has no room for them then
// (HoldsLateMetadata). `earlier`: the source's blocks before the first row, where these came after
// it; null: these are those.
ImageMetadata MetadataForResult(ImageMetadata metadata, MetadataPolicy policy, ImageFormat format,
                                const ImageSpec& encoded, bool too_late,
                                std::vector<std::string>& warnings,
                                const ImageMetadata* earlier = nullptr);

}  // namespace upscaled
