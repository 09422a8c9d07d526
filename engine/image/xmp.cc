// Sources: ISO 16684-1 (XMP), section 7, and part 2 for the properties of TIFF and EXIF; Google's
// Photo Sphere XMP metadata (GPano); Metadata Working Group's guidelines 2.0 (mwg-rs).
#include "engine/image/xmp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

// Puts `change(number)` in place of the number that follows each `property`, which is written as
// property="1", property='1' or <property>1</property>. Takes linear time.
template <typename Change>
std::string ReplaceNumber(std::string_view xmp, std::string_view property, Change change) {
  std::string result;
  size_t copied = 0;
  for (size_t found = xmp.find(property); found != xmp.npos;
       found = xmp.find(property, found + 1)) {
    size_t begin = found + property.size();
    if (begin >= xmp.size() || found == 0) continue;
    const bool element = xmp[begin] == '>' && xmp[found - 1] == '<';
    if (!element && xmp[begin] != '=') continue;
    ++begin;
    if (!element && begin < xmp.size() && (xmp[begin] == '"' || xmp[begin] == '\'')) ++begin;
    size_t end = begin;
    while (end < xmp.size() && absl::ascii_isdigit(xmp[end])) ++end;
    int64_t number = 0;
    if (!absl::SimpleAtoi(ToAbsl(xmp.substr(begin, end - begin)), &number)) continue;
    result.append(xmp.substr(copied, begin - copied));
    absl::StrAppend(&result, change(number));
    copied = end;
  }
  result.append(xmp.substr(std::min(copied, xmp.size())));
  return result;
}

std::string SetNumber(std::string_view xmp, std::string_view property, int value) {
  return ReplaceNumber(xmp, property, [value](int64_t) { return value; });
}

// Scales the lengths along one side of a panorama, in pixels of an image that had `stated` of them
// there, or as many as the whole panorama (the first of `lengths`) if that is missing.
constexpr std::string_view kPanoramaWidth = "GPano:CroppedAreaImageWidthPixels",
                           kPanoramaHeight = "GPano:CroppedAreaImageHeightPixels";
std::string ScalePanorama(std::string xmp, std::string_view stated,
                          std::span<const std::string_view> lengths, int length) {
  int64_t old_length = 0;
  for (const std::string_view property : {lengths.front(), stated})
    ReplaceNumber(xmp, property, [&](int64_t number) { return old_length = number; });
  if (old_length <= 0) return xmp;
  const double factor = static_cast<double>(length) / static_cast<double>(old_length);
  for (const std::string_view property : lengths)
    xmp = ReplaceNumber(xmp, property, [factor](int64_t number) {
      return static_cast<int64_t>(std::round(static_cast<double>(number) * factor));
    });
  return xmp;
}

// Sets the size that regions (of faces, say) apply to.
std::string CorrectRegions(std::string xmp, Size size) {
  constexpr std::string_view kName = "mwg-rs:AppliedToDimensions";
  const size_t begin = xmp.find(kName);
  if (begin == xmp.npos) return xmp;
  const size_t end = std::min(xmp.find(kName, begin + 1), xmp.find("/>", begin));
  const std::string_view whole = xmp, regions = whole.substr(begin, end - begin);
  if (regions.find("stDim:unit") != regions.npos && regions.find("pixel") == regions.npos)
    return xmp;
  const std::string widened = SetNumber(regions, "stDim:w", size.width);
  return absl::StrCat(xmp.substr(0, begin), SetNumber(widened, "stDim:h", size.height),
                      xmp.substr(std::min(end, xmp.size())));
}

}  // namespace

std::string UprightXmp(std::string_view xmp) { return SetNumber(xmp, "tiff:Orientation", 1); }

std::string CorrectXmp(std::string_view xmp, Size size, bool keep_orientation) {
  std::string result(xmp);
  if (result.empty()) return result;
  if (!keep_orientation) result = UprightXmp(result);
  const std::pair<std::string_view, int> numbers[] = {
      {"tiff:ImageWidth", size.width},
      {"tiff:ImageLength", size.height},
      {"exif:PixelXDimension", size.width},
      {"exif:PixelYDimension", size.height},
  };
  for (const auto& [property, value] : numbers) result = SetNumber(result, property, value);
  constexpr std::string_view kWidths[] = {
      "GPano:FullPanoWidthPixels", "GPano:CroppedAreaLeftPixels",
      "GPano:LargestValidInteriorRectLeft", "GPano:LargestValidInteriorRectWidth", kPanoramaWidth};
  constexpr std::string_view kHeights[] = {
      "GPano:FullPanoHeightPixels", "GPano:CroppedAreaTopPixels",
      "GPano:LargestValidInteriorRectTop", "GPano:LargestValidInteriorRectHeight", kPanoramaHeight};
  result = ScalePanorama(std::move(result), kPanoramaWidth, kWidths, size.width);
  result = ScalePanorama(std::move(result), kPanoramaHeight, kHeights, size.height);
  return CorrectRegions(std::move(result), size);
}

bool XmpTellsLocation(std::string_view xmp) {
  constexpr std::string_view kSigns[] = {"GPS",      "Location", ":City",
                                         ":Country", ":State",   std::string_view("\0", 1)};
  return std::ranges::any_of(kSigns,
                             [xmp](std::string_view sign) { return xmp.find(sign) != xmp.npos; });
}

}  // namespace upscaled
