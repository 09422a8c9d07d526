// Dynamic programming over all rectangles of a coarse grid: the best cover of a rectangle is
// itself, or the best of its two parts wherever a line may cut it.
#include "engine/pipeline/cell_cover.h"

#include <algorithm>

#include "engine/base/check.h"

namespace upscaled {
namespace {

constexpr int kMaxLines = 16;  // of the coarse grid on each axis: cost grows with the fifth power

// The needed cells of rectangles of cells.
class NeededCells {
 public:
  explicit NeededCells(const TileCells& cells) : cells_(cells) {
    const int stride = cells.columns() + 1;
    before_.resize(static_cast<size_t>(stride) * (cells.rows() + 1));
    for (int y = 0; y < cells.rows(); ++y) {
      for (int x = 0; x < cells.columns(); ++x) {
        const bool needed = cells.needed[static_cast<size_t>(y) * cells.columns() + x] != 0;
        before_[(y + 1) * stride + x + 1] = before_[y * stride + x + 1] +
                                            before_[(y + 1) * stride + x] -
                                            before_[y * stride + x] + needed;
      }
    }
  }

  int Count(const Rect& r) const {
    const int stride = cells_.columns() + 1;
    const int *top = &before_[r.y * stride], *bottom = &before_[r.bottom() * stride];
    return bottom[r.right()] - bottom[r.x] - top[r.right()] + top[r.x];
  }

  // The smallest rectangle around all of `r`'s needed cells.
  Rect Trim(Rect r) const {
    const int all = Count(r);
    while (Count({r.x, r.y, r.width - 1, r.height}) == all) --r.width;
    while (Count({r.x + 1, r.y, r.width - 1, r.height}) == all) ++r.x, --r.width;
    while (Count({r.x, r.y, r.width, r.height - 1}) == all) --r.height;
    while (Count({r.x, r.y + 1, r.width, r.height - 1}) == all) ++r.y, --r.height;
    return r;
  }

  Rect InPixels(const Rect& r) const {
    const int x = cells_.columns_px[r.x], y = cells_.rows_px[r.y];
    return {x, y, cells_.columns_px[r.right()] - x, cells_.rows_px[r.bottom()] - y};
  }

 private:
  const TileCells& cells_;
  std::vector<int> before_;  // needed cells above and to the left
};

// Possible cuts of a tile of this many cells a side, its ends among them.
std::vector<int> ChooseLines(int cells) {
  const int parts = std::min(cells, kMaxLines);
  std::vector<int> lines;
  for (int i = 0; i <= parts; ++i) lines.push_back(cells * i / parts);
  return lines;
}

class Cutter {
 public:
  Cutter(const TileCells& cells, const RectCost& cost)
      : needed_(cells),
        cost_(cost),
        x_lines_(ChooseLines(cells.columns())),
        y_lines_(ChooseLines(cells.rows())),
        best_(static_cast<size_t>(columns() * (columns() + 1) / 2) * rows() * (rows() + 1) / 2) {
    // From small to large: each one's parts are known by then.
    for (int width = 1; width <= columns(); ++width) {
      for (int x = 0; x + width <= columns(); ++x) {
        for (int height = 1; height <= rows(); ++height) {
          for (int y = 0; y + height <= rows(); ++y) Solve({x, y, width, height});
        }
      }
    }
  }

  std::vector<Rect> Cover() const {
    std::vector<Rect> rects;
    Collect({0, 0, columns(), rows()}, rects);
    return rects;
  }

 private:
  int columns() const { return static_cast<int>(x_lines_.size()) - 1; }
  int rows() const { return static_cast<int>(y_lines_.size()) - 1; }

  // Between lines of one axis: all parts that begin before the end of this one come first.
  static int Part(int begin, int length) {
    const int end = begin + length;
    return end * (end - 1) / 2 + begin;
  }
  size_t IndexOf(const Rect& r) const {
    return static_cast<size_t>(Part(r.x, r.width)) * (rows() * (rows() + 1) / 2) +
           Part(r.y, r.height);
  }
  double Best(const Rect& r) const { return best_[IndexOf(r)]; }

  Rect InCells(const Rect& r) const {
    const int x = x_lines_[r.x], y = y_lines_[r.y];
    return {x, y, x_lines_[r.right()] - x, y_lines_[r.bottom()] - y};
  }
  double UncutCost(const Rect& r) const {
    const Rect px = needed_.InPixels(needed_.Trim(InCells(r)));
    return cost_.Of({px.width, px.height});
  }

  // Calls `visit` with the two parts of every cut.
  template <typename Visit>
  static void ForEachCut(const Rect& r, Visit visit) {
    for (int i = 1; i < r.width; ++i) {
      visit(Rect{r.x, r.y, i, r.height}, Rect{r.x + i, r.y, r.width - i, r.height});
    }
    for (int i = 1; i < r.height; ++i) {
      visit(Rect{r.x, r.y, r.width, i}, Rect{r.x, r.y + i, r.width, r.height - i});
    }
  }

  void Solve(const Rect& r) {
    double& best = best_[IndexOf(r)];
    best = 0;
    if (needed_.Count(InCells(r)) == 0) return;
    best = UncutCost(r);
    ForEachCut(
        r, [&](const Rect& a, const Rect& b) { best = std::min<double>(best, Best(a) + Best(b)); });
  }

  void Collect(const Rect& r, std::vector<Rect>& rects) const {
    if (needed_.Count(InCells(r)) == 0) return;
    double least = UncutCost(r);
    Rect parts[2] = {r, {}};
    ForEachCut(r, [&](const Rect& a, const Rect& b) {
      const double cost = Best(a) + Best(b);
      if (cost >= least) return;
      least = cost;
      parts[0] = a, parts[1] = b;
    });
    if (parts[1].empty()) {
      rects.push_back(needed_.InPixels(needed_.Trim(InCells(r))));
      return;
    }
    for (const Rect& part : parts) Collect(part, rects);
  }

  const NeededCells needed_;
  const RectCost& cost_;
  const std::vector<int> x_lines_, y_lines_;  // in cells
  std::vector<double> best_;  // what the cheapest cover of each rectangle between lines costs
};

}  // namespace

RectCost RectCost::Fit(int side_px, double one, double two, double four) {
  // f(n) = a n^2 + b n + c through n = 1, 2, 4.
  const double slope1 = two - one, slope2 = (four - two) / 2;
  const double a = (slope2 - slope1) / 3, b = slope1 - 3 * a, c = one - a - b;
  const double side = side_px;
  return {a / (side * side), b / (2 * side), c};
}

std::vector<int> CutAtCells(int begin, int end, int cell_px) {
  std::vector<int> cuts = {begin};
  for (int at = (begin / cell_px + 1) * cell_px; at < end; at += cell_px) cuts.push_back(at);
  cuts.push_back(end);
  return cuts;
}

std::vector<Rect> CoverNeededCells(const TileCells& cells, const RectCost& cost) {
  UPSCALED_CHECK(cells.columns() > 0 && cells.rows() > 0);
  UPSCALED_CHECK(cells.needed.size() == static_cast<size_t>(cells.columns()) * cells.rows());
  return Cutter(cells, cost).Cover();
}

}  // namespace upscaled
