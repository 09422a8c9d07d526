#include "server/rest/accept.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

struct MediaRange {
  absl::string_view type;  // "image/png"
  double weight = 1;       // 0: not acceptable
};

MediaRange ParseMediaRange(absl::string_view text) {
  MediaRange range;
  for (const absl::string_view part : absl::StrSplit(text, ';')) {
    const absl::string_view trimmed = absl::StripAsciiWhitespace(part);
    if (range.type.empty()) {
      range.type = trimmed;
    } else if (absl::StartsWithIgnoreCase(trimmed, "q=")) {
      double weight = 0;
      range.weight =
          absl::SimpleAtod(trimmed.substr(2), &weight) && weight >= 0 && weight <= 1 ? weight : 0;
    }
  }
  return range;
}

// Browsers name all formats they show, and get one without seconds of encoding.
bool IsSlow(ImageFormat format) {
  return format == ImageFormat::kAvif || format == ImageFormat::kJxl;
}

std::vector<MediaRange> ParseAccept(std::string_view accept) {
  std::vector<MediaRange> ranges;
  for (const absl::string_view text : absl::StrSplit(ToAbsl(accept), ',', absl::SkipWhitespace()))
    ranges.push_back(ParseMediaRange(text));
  return ranges;
}

bool IsAny(const MediaRange& range) { return range.type == "*/*"; }
bool IsAnyImage(const MediaRange& range) { return absl::EqualsIgnoreCase(range.type, "image/*"); }

std::optional<ImageFormat> FormatOf(const MediaRange& range) {
  return FormatFromMediaType({range.type.data(), range.type.size()});
}

}  // namespace

std::optional<ImageFormat> PreferredFormat(std::string_view accept) {
  std::optional<ImageFormat> best;
  double best_weight = 0, any_weight = 0;
  bool excludes_any = false;  // perhaps the format of the source
  for (const MediaRange& range : ParseAccept(accept)) {
    if (IsAny(range) || IsAnyImage(range)) any_weight = std::max(any_weight, range.weight);
    const std::optional<ImageFormat> format = FormatOf(range);
    if (!format.has_value() || !CanEncode(*format)) continue;
    excludes_any |= range.weight == 0;
    const bool cheaper =
        range.weight == best_weight && best.has_value() && IsSlow(*best) && !IsSlow(*format);
    if (range.weight > best_weight || cheaper) {
      best = format;
      best_weight = range.weight;
    }
  }
  return best_weight >= any_weight || excludes_any ? best : std::nullopt;
}

bool AcceptsFormat(std::string_view accept, ImageFormat format) {
  bool names_images = false;
  int rank = 0;  // of the most specific range so far
  double weight = 0;
  for (const MediaRange& range : ParseAccept(accept)) {
    names_images |= IsAny(range) || absl::StartsWithIgnoreCase(range.type, "image/");
    const int its_rank = FormatOf(range) == format ? 3
                         : IsAnyImage(range)       ? 2
                         : IsAny(range)            ? 1
                                                   : 0;
    if (its_rank < rank || its_rank == 0) continue;
    weight = its_rank > rank ? range.weight : std::max(weight, range.weight);
    rank = its_rank;
  }
  return weight > 0 || !names_images;
}

}  // namespace upscaled::server
