// Sources: CIPA DC-008 (Exif 2.32), section 4.7; XMP specification, part 3, section 1.1.3; Adobe
// Photoshop file formats specification; JFIF 1.02.
#include "engine/image/jpeg_metadata.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/image/exif.h"
#include "engine/image/iptc.h"
#include "engine/image/jpeg_marker.h"
#include "engine/image/utf8.h"

namespace upscaled {
namespace {

// The rest of `payload` when it begins so.
std::optional<std::string_view> After(std::string_view begin, std::string_view payload) {
  if (!payload.starts_with(begin)) return std::nullopt;
  return payload.substr(begin.size());
}

std::optional<PixelDensity> DensityOf(const jpeg_decompress_struct& info) {
  using Unit = PixelDensity::Unit;
  if (!info.saw_JFIF_marker || info.X_density == 0 || info.Y_density == 0) return std::nullopt;
  const Unit unit = info.density_unit == 1   ? Unit::kInch
                    : info.density_unit == 2 ? Unit::kCentimetre
                                             : Unit::kAspect;
  if (unit == Unit::kAspect && info.X_density == info.Y_density) return std::nullopt;
  return PixelDensity{unit, info.X_density, info.Y_density};
}

}  // namespace

void ReadJpegMetadata(const jpeg_decompress_struct& info, ImageMetadata& metadata,
                      std::vector<std::string>& warnings) {
  metadata.density = DensityOf(info);
  std::string resources;
  bool extended_xmp = false, more_exif = false, more_texts = false, other_resources = false;
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view payload(reinterpret_cast<const char*>(marker->data),
                                   marker->data_length);
    if (marker->marker == JPEG_COM) {
      more_texts = more_texts || metadata.texts.size() == kMaxTexts;
      if (more_texts) continue;
      metadata.texts.push_back({.keyword = "Comment", .text = ToUtf8(payload)});
    } else if (marker->marker == jpeg::kApp13) {
      resources.append(After(jpeg::kPhotoshopBegin, payload).value_or(""));
    } else if (marker->marker == jpeg::kApp1) {
      if (const auto exif = After(kExifBegin, payload)) {
        more_exif = more_exif || !metadata.exif.empty();
        if (metadata.exif.empty()) metadata.exif = *exif;
      }
      if (const auto xmp = After(jpeg::kXmpBegin, payload)) metadata.xmp = *xmp;
      extended_xmp = extended_xmp || After(jpeg::kExtendedXmpBegin, payload).has_value();
    }
  }
  metadata.iptc = IptcOfResources(resources, other_resources);
  if (extended_xmp) warnings.push_back("JPEG: extended XMP is left out");
  if (more_exif) warnings.push_back("JPEG: all EXIF segments but the first are left out");
  if (more_texts) warnings.push_back("JPEG: all comments but the first 1000 are left out");
  if (other_resources)
    warnings.push_back("JPEG: Photoshop's image resources other than IPTC are left out");
}

void SetJpegDensity(const PixelDensity& density, jpeg_compress_struct& info) {
  using Unit = PixelDensity::Unit;
  constexpr uint32_t kMax = UINT16_MAX;
  uint32_t x = density.x, y = density.y;
  if (density.unit == Unit::kMetre) {
    x = ConvertDensity(x, Unit::kMetre, Unit::kInch);
    y = ConvertDensity(y, Unit::kMetre, Unit::kInch);
  }
  for (; std::max(x, y) > kMax && density.unit == Unit::kAspect; x /= 2, y /= 2) continue;
  info.density_unit = density.unit == Unit::kAspect ? 0 : density.unit == Unit::kCentimetre ? 2 : 1;
  info.X_density = static_cast<UINT16>(std::clamp<uint32_t>(x, 1, kMax));
  info.Y_density = static_cast<UINT16>(std::clamp<uint32_t>(y, 1, kMax));
}

std::vector<JpegSegment> JpegSegmentsOf(const ImageMetadata& metadata) {
  std::vector<JpegSegment> segments;
  const auto add = [&segments](int marker, std::string_view begin, std::string_view block) {
    if (!block.empty()) segments.push_back({marker, std::string(begin).append(block)});
  };
  add(jpeg::kApp1, kExifBegin, metadata.exif);
  add(jpeg::kApp1, jpeg::kXmpBegin, metadata.xmp);
  if (!metadata.iptc.empty())
    add(jpeg::kApp13, jpeg::kPhotoshopBegin, ResourcesOfIptc(metadata.iptc));
  for (const ImageText& text : metadata.texts) add(JPEG_COM, "", text.text);
  return segments;
}

}  // namespace upscaled
