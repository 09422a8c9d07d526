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

// Puts `change(value)` in place of the value that follows each `property`, which is written as
// property="1", property='1' or <property>1</property>: the longest run of `digits`. An empty
// change leaves it. Takes linear time.
template <typename Change>
std::string ReplaceValue(std::string_view xmp, std::string_view property, std::string_view digits,
                         Change change) {
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
    while (end < xmp.size() && digits.find(xmp[end]) != digits.npos) ++end;
    const std::string changed = change(xmp.substr(begin, end - begin));
    if (changed.empty()) continue;
    result.append(xmp.substr(copied, begin - copied));
    result.append(changed);
    copied = end;
  }
  result.append(xmp.substr(std::min(copied, xmp.size())));
  return result;
}

constexpr std::string_view kDigits = "0123456789", kFractionDigits = "0123456789/.";

template <typename Change>
std::string ReplaceNumber(std::string_view xmp, std::string_view property, Change change) {
  return ReplaceValue(xmp, property, kDigits, [&](std::string_view digits) {
    int64_t number = 0;
    return absl::SimpleAtoi(ToAbsl(digits), &number) ? absl::StrCat(change(number)) : std::string();
  });
}

// Fractions are written as "3500/1". "": it is not one.
std::string TimesText(std::string_view text, double factor) {
  const size_t slash = std::min(text.find('/'), text.size());
  PositiveFraction fraction{0, 1};
  if (!absl::SimpleAtoi(ToAbsl(text.substr(0, slash)), &fraction.numerator) ||
      (slash < text.size() &&
       !absl::SimpleAtoi(ToAbsl(text.substr(slash + 1)), &fraction.denominator)))
    return {};
  const PositiveFraction product = Times(fraction, factor);
  return absl::StrCat(product.numerator, "/", product.denominator);
}

// Exchanges the values of two properties, if the packet has both.
std::string ExchangeFractions(std::string xmp, std::string_view a, std::string_view b) {
  std::string value_a, value_b;
  const auto keep = [](std::string& value) {
    return [&value](std::string_view text) {
      if (value.empty()) value = text;
      return std::string();
    };
  };
  ReplaceValue(xmp, a, kFractionDigits, keep(value_a));
  ReplaceValue(xmp, b, kFractionDigits, keep(value_b));
  if (value_a.empty() || value_b.empty()) return xmp;
  xmp = ReplaceValue(xmp, a, kFractionDigits, [&](std::string_view) { return value_b; });
  return ReplaceValue(xmp, b, kFractionDigits, [&](std::string_view) { return value_a; });
}

constexpr std::string_view kSensorX = "exif:FocalPlaneXResolution",
                           kSensorY = "exif:FocalPlaneYResolution";

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

PositiveFraction Times(PositiveFraction fraction, double factor) {
  constexpr double kMax = UINT32_MAX, kUnits[] = {1, 1000, 1'000'000};
  if (fraction.numerator == 0 || fraction.denominator == 0) return fraction;
  // The denominator stays if the product is exact.
  const double numerator = fraction.numerator * factor;
  if (numerator == std::round(numerator) && numerator >= 1 && numerator <= kMax)
    return {static_cast<uint32_t>(numerator), fraction.denominator};
  const double value = numerator / fraction.denominator;
  PositiveFraction nearest = fraction;
  for (const double unit : kUnits) {
    const double scaled = std::round(value * unit);
    if (scaled >= 1 && scaled <= kMax)
      nearest = {static_cast<uint32_t>(scaled), static_cast<uint32_t>(unit)};
  }
  return nearest;
}

std::string TurnXmpDensity(std::string_view xmp) {
  std::string turned = ExchangeFractions(std::string(xmp), "tiff:XResolution", "tiff:YResolution");
  return ExchangeFractions(std::move(turned), kSensorX, kSensorY);
}

std::string ScaleXmpSensorDensity(std::string_view xmp, double factor_x, double factor_y) {
  const auto scaled = [](std::string_view packet, std::string_view property, double factor) {
    return ReplaceValue(packet, property, kFractionDigits,
                        [factor](std::string_view text) { return TimesText(text, factor); });
  };
  return scaled(scaled(xmp, kSensorX, factor_x), kSensorY, factor_y);
}

bool XmpTellsLocation(std::string_view xmp) {
  constexpr std::string_view kSigns[] = {"GPS",      "Location", ":City",
                                         ":Country", ":State",   std::string_view("\0", 1)};
  return std::ranges::any_of(kSigns,
                             [xmp](std::string_view sign) { return xmp.find(sign) != xmp.npos; });
}

}  // namespace upscaled
