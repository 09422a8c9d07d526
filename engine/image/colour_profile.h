// Colours by profile, with Little CMS. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/image/metadata.h"

namespace upscaled {

// Bytes of a profile that name its colours.
inline constexpr size_t kIccHeadBytes = 40;

// The colours named in a profile's header, such as "RGB "; "" without such a header.
std::string_view SpaceOfProfile(std::string_view icc_profile);

// The sentence about CMYK for users, which `format` begins. `profile_head`: the profile's first
// bytes; "" without a profile, or if they are not known.
std::string CmykWarning(const char* format, bool has_profile, std::string_view profile_head);

// Turns CMYK into sRGB by a profile of the file: relative colorimetric, as libvips and browsers do.
class CmykToSrgb {
 public:
  // Memory in addition to the profile's own. Three times the profile is taken, too.
  static constexpr size_t kBytes = size_t{6} << 20;

  // For samples of 8 or 16 bits. null: `icc_profile` does not describe CMYK.
  static std::unique_ptr<CmykToSrgb> Create(std::string_view icc_profile,
                                            SampleType type = SampleType::kU8);

  // `cmyk`: the largest value is no ink, as JPEG files store it.
  void Convert(const void* cmyk, int width_px, void* rgb) const;

 private:
  struct Delete {
    void operator()(void* transform) const;
  };
  explicit CmykToSrgb(void* transform) : transform_(transform) {}

  std::unique_ptr<void, Delete> transform_;
};

// Whether Little CMS can turn samples of gray (`gray`) or RGB by `icc_profile` into other colours.
// libjxl 0.7 ends the process over a profile unfit for this.
bool DescribesSamples(std::string_view icc_profile, bool gray);

// The transfer of absolute or scene light in `chunks` (its cICP): "PQ" or "HLG"; "" for all others,
// since a profile can describe them.
std::string_view HdrTransferOf(std::span<const ColourChunk> chunks);

// Whether ProfileOf can describe the colours of a cICP chunk: not those of high dynamic range, of
// narrow range, of logarithmic curves or of XYZ.
bool HasProfile(std::string_view cicp);

// Whether `chrm`, a cHRM chunk's bytes, states chromaticities of a white and of three primaries:
// not beyond the diagram, and not on a line.
bool AreChromaticities(std::string_view chrm);

// A profile with the meaning of a PNG file's colour chunks, in the order of the PNG specification
// (third edition, section 4.3): cICP, the file's own profile, sRGB, gAMA with cHRM. "" means sRGB.
// `gray`: for an image of one colour channel. `unusable` (may be null) gets the types of chunks
// that would count if their values had a meaning.
std::string ProfileOf(std::span<const ColourChunk> chunks, std::string_view icc_profile, bool gray,
                      std::vector<std::string>* unusable = nullptr);

}  // namespace upscaled
