#include "server/config/values.h"

#include <cmath>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

// Longer suffixes first: "MiB" ends like "B" would.
constexpr Unit kByteUnits[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                               {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40}};
constexpr Unit kPixelUnits[] = {{"MP", 1e6}, {"GP", 1e9}};

absl::StatusOr<int64_t> ParseScaled(std::string_view text, std::span<const Unit> units,
                                    std::string_view expected) {
  absl::string_view number = ToAbsl(text);
  double factor = 1;
  for (const Unit& unit : units) {
    if (!absl::EndsWithIgnoreCase(number, ToAbsl(unit.suffix))) continue;
    number.remove_suffix(unit.suffix.size());
    factor = unit.factor;
    break;
  }
  double value = 0;
  constexpr double kMax = 0x1p62;
  if (!absl::SimpleAtod(number, &value) || !(value * factor >= 1) || value * factor > kMax) {
    return absl::InvalidArgumentError(absl::StrCat("must be ", ToAbsl(expected)));
  }
  return static_cast<int64_t>(std::llround(value * factor));
}

std::string FormatScaled(int64_t value, std::span<const Unit> units) {
  std::string text = absl::StrCat(value);
  for (const Unit& unit : units) {
    const auto factor = static_cast<int64_t>(unit.factor);
    if (value >= factor && value % factor == 0)
      text = absl::StrCat(value / factor, ToAbsl(unit.suffix));
  }
  return text;
}

}  // namespace

absl::StatusOr<int64_t> ParseInteger(std::string_view text, int64_t min, int64_t max) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(ToAbsl(text), &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a whole number from ", min, " to ", max));
  }
  return value;
}

absl::StatusOr<double> ParseRatio(std::string_view text) {
  double ratio = 0;
  if (absl::SimpleAtod(ToAbsl(text), &ratio) && ratio >= 0 && ratio <= 1) return ratio;
  return absl::InvalidArgumentError("must be a number from 0 to 1");
}

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  return ParseScaled(text, kByteUnits, "a number of bytes, at least 1, such as 64MiB");
}

absl::StatusOr<int64_t> ParsePixels(std::string_view text) {
  return ParseScaled(text, kPixelUnits, "a number of pixels, at least 1, such as 100MP");
}

absl::StatusOr<absl::Duration> ParseTimeout(std::string_view text) {
  absl::Duration value;
  if (!absl::ParseDuration(ToAbsl(text), &value) || value <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "must be a time above 0 with its unit, such as 500ms, 30s, 5m, or inf");
  }
  return value;
}

absl::StatusOr<absl::Duration> ParseDelay(std::string_view text) {
  absl::Duration value;
  if (!absl::ParseDuration(ToAbsl(text), &value) || value < absl::ZeroDuration() ||
      value == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        "must be 0 or a time with its unit, such as 500ms, 30s or 5m");
  }
  return value;
}

std::string FormatBytes(int64_t bytes) {
  return FormatScaled(bytes, std::span(kByteUnits).first(4));
}

std::string FormatPixels(int64_t pixels) { return FormatScaled(pixels, kPixelUnits); }

}  // namespace upscaled::server
