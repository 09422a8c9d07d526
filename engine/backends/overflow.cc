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

// Runs of the result, and the source pixels that cover them.
struct Part {
  Rect source;
  std::vector<Rect> runs;

  void Add(const Rect& run, int scale) {
    source = Cover(source, SourceOf(run, scale));
    runs.push_back(run);
  }
  void Add(const Part& other) {
    source = Cover(source, other.source);
    runs.insert(runs.end(), other.runs.begin(), other.runs.end());
  }
};

// The runs by squares of a grid, with neighbouring squares as one part.
std::vector<Part> Split(std::span<const Rect> runs, int scale) {
  constexpr int kSourceSide = 32;
  const int side = kSourceSide * scale;
  std::map<std::pair<int, int>, Part> squares;  // by row and column
  for (const Rect& run : runs) {
    const int row = run.y / side;
    for (int column = run.x / side; column * side < run.right(); ++column) {
      const Rect square{column * side, row * side, side, side};
      squares[{row, column}].Add(Intersect(run, square), scale);
    }
  }
  std::vector<Part> parts;
  std::pair<int, int> next;
  for (const auto& [place, part] : squares) {
    if (parts.empty() || place != next) parts.emplace_back();
    parts.back().Add(part);
    next = {place.first, place.second + 1};
  }
  return parts;
}

// The runs in as many parts as cost least: one, or those of a grid.
std::vector<Part> PartsOf(std::span<const Rect> runs, int scale, const ExactTiles& exact) {
  std::vector<Part> parts = Split(runs, scale);
  const auto cost_of = [&](const Rect& source) { return exact.plan(source).pass_costs.back(); };
  Rect all;
  int64_t cost = 0;
  for (const Part& part : parts) {
    all = Cover(all, part.source);
    cost += cost_of(part.source);
  }
  if (cost < cost_of(all)) return parts;
  return {{all, {runs.begin(), runs.end()}}};
}

}  // namespace

void AppendToRuns(int x, int y, std::vector<Rect>& runs) {
  const bool goes_on = !runs.empty() && runs.back().y == y && runs.back().right() == x;
  if (!goes_on) runs.push_back({x, y, 0, 1});
  ++runs.back().width;
}

void AppendOverflowed(const float* first, int channels, int count, int x, int y,
                      std::vector<Rect>& runs) {
  if (AllFinite(first, count * channels)) return;
  for (int n = 0; n < count; ++n) {
    if (AllFinite(first + static_cast<ptrdiff_t>(n) * channels, channels)) continue;
    AppendToRuns(x + n, y, runs);
  }
}

absl::Status ReplaceOverflowed(std::span<const Rect> runs, int scale, const Rect& tile,
                               const MutableImageView& dst, const ExactTiles& exact) {
  if (runs.empty()) return absl::OkStatus();
  const Rect whole = Scale(tile, scale);
  for (const Part& part : PartsOf(runs, scale, exact)) {
    const Rect computed = Scale(part.source, scale);
    Image result({computed.width, computed.height, kRgbChannels, dst.spec.type});
    RETURN_IF_ERROR(exact.compute(exact.plan(part.source), result.mutable_view()));
    for (const Rect& run : part.runs) {
      const uint8_t* from = result.view().Crop(RelativeTo(run, computed)).data;
      CopyRgb(from, run.width, dst.spec, dst.Crop(RelativeTo(run, whole)).data);
    }
  }
  return absl::OkStatus();
}

}  // namespace upscaled
