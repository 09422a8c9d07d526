#include "engine/backends/overflow.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/finite.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/copy_rgb.h"

namespace upscaled {
namespace {

Rect RelativeTo(const Rect& rect, const Rect& origin) {
  return {rect.x - origin.x, rect.y - origin.y, rect.width, rect.height};
}

// The source pixels whose results cover some of the result's.
Rect SourceOf(const Rect& pixels, int scale) {
  const int x = pixels.x / scale, y = pixels.y / scale;
  return {x, y, CeilDiv(pixels.right(), scale) - x, CeilDiv(pixels.bottom(), scale) - y};
}

// What computing a tile takes, in pixels: networks read a border around it.
int64_t WorkOf(const Rect& tile) {
  constexpr int kBorder = 12;
  return Expand(tile, kBorder).Area();
}

// Tiles whose results cover the runs: where they lie apart, what each square of a grid has of them,
// those side by side as one.
std::vector<Rect> SourceTiles(std::span<const Rect> runs, int scale) {
  constexpr int kSquare = 32;
  std::map<std::pair<int, int>, Rect> squares;  // by row and column
  Rect all;
  for (const Rect& run : runs) {
    const Rect source = SourceOf(run, scale);
    all = Cover(all, source);
    const int row = source.y / kSquare;
    for (int column = source.x / kSquare; column * kSquare < source.right(); ++column) {
      const Rect square{column * kSquare, row * kSquare, kSquare, kSquare};
      Rect& part = squares[{row, column}];
      part = Cover(part, Intersect(source, square));
    }
  }
  std::vector<Rect> tiles;
  std::pair<int, int> next;
  int64_t work = 0;
  for (const auto& [place, part] : squares) {
    const bool joined = !tiles.empty() && place == next;
    if (joined) {
      work -= WorkOf(tiles.back());
      tiles.back() = Cover(tiles.back(), part);
    } else {
      tiles.push_back(part);
    }
    work += WorkOf(tiles.back());
    next = {place.first, place.second + 1};
  }
  return work < WorkOf(all) ? tiles : std::vector<Rect>{all};
}

}  // namespace

void AppendOverflowed(const float* first, int channels, int count, int x, int y,
                      std::vector<Rect>& runs) {
  if (AllFinite(first, count * channels)) return;
  for (int n = 0; n < count; ++n) {
    if (AllFinite(first + static_cast<ptrdiff_t>(n) * channels, channels)) continue;
    const bool goes_on = !runs.empty() && runs.back().y == y && runs.back().right() == x + n;
    if (!goes_on) runs.push_back({x + n, y, 0, 1});
    ++runs.back().width;
  }
}

absl::Status ReplaceOverflowed(
    std::span<const Rect> runs, int scale, const Rect& tile, const MutableImageView& dst,
    absl::FunctionRef<absl::Status(const Rect& tile, const MutableImageView& dst)> compute) {
  if (runs.empty()) return absl::OkStatus();
  const Rect whole = Scale(tile, scale);
  for (const Rect& part : SourceTiles(runs, scale)) {
    const Rect computed = Scale(part, scale);
    Image exact({computed.width, computed.height, kRgbChannels, dst.spec.type});
    RETURN_IF_ERROR(compute(part, exact.mutable_view()));
    for (const Rect& run : runs) {
      const Rect pixels = Intersect(run, computed);
      if (pixels.empty()) continue;
      const uint8_t* from = exact.view().Crop(RelativeTo(pixels, computed)).data;
      CopyRgb(from, pixels.width, dst.spec, dst.Crop(RelativeTo(pixels, whole)).data);
    }
  }
  return absl::OkStatus();
}

}  // namespace upscaled
