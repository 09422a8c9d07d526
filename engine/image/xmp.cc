// Source: ISO 16684-1 (XMP), section 7; the properties are those of TIFF and EXIF in part 2.
#include "engine/image/xmp.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace upscaled {
namespace {

// Puts `value` in place of the number that follows each `property`, which is written as
// property="1", property='1' or <property>1</property>. Takes linear time.
std::string ReplaceNumber(std::string_view xmp, std::string_view property, int value) {
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
    if (end == begin) continue;
    result.append(xmp.substr(copied, begin - copied));
    absl::StrAppend(&result, value);
    copied = end;
  }
  result.append(xmp.substr(std::min(copied, xmp.size())));
  return result;
}

}  // namespace

std::string CorrectXmp(std::string_view xmp, Size size, bool keep_orientation) {
  std::string result(xmp);
  if (result.empty()) return result;
  if (!keep_orientation) result = ReplaceNumber(result, "tiff:Orientation", 1);
  const std::pair<std::string_view, int> numbers[] = {
      {"tiff:ImageWidth", size.width},
      {"tiff:ImageLength", size.height},
      {"exif:PixelXDimension", size.width},
      {"exif:PixelYDimension", size.height},
  };
  for (const auto& [property, value] : numbers) result = ReplaceNumber(result, property, value);
  return result;
}

bool XmpTellsLocation(std::string_view xmp) {
  constexpr std::string_view kSigns[] = {"GPS",      "Location", ":City",
                                         ":Country", ":State",   std::string_view("\0", 1)};
  return std::ranges::any_of(kSigns,
                             [xmp](std::string_view sign) { return xmp.find(sign) != xmp.npos; });
}

}  // namespace upscaled
