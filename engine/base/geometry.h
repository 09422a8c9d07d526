// Integer sizes and rectangles in pixels; x grows to the right, y downwards.
#pragma once

#include <algorithm>
#include <cstdint>

namespace upscaled {

struct Size {
  int width = 0;
  int height = 0;

  int64_t Area() const { return int64_t{width} * height; }
  friend bool operator==(const Size&, const Size&) = default;
};

// Half open: covers [x, x + width) x [y, y + height).
struct Rect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  Size size() const { return {width, height}; }
  int right() const { return x + width; }
  int bottom() const { return y + height; }
  bool empty() const { return width <= 0 || height <= 0; }
  int64_t Area() const { return empty() ? 0 : int64_t{width} * height; }
  bool Contains(const Rect& r) const {
    return r.x >= x && r.y >= y && r.right() <= right() && r.bottom() <= bottom();
  }
  friend bool operator==(const Rect&, const Rect&) = default;
};

inline Rect Intersect(const Rect& a, const Rect& b) {
  const int x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::min(a.right(), b.right()) - x, std::min(a.bottom(), b.bottom()) - y};
}

// The smallest rectangle around both.
inline Rect Cover(const Rect& a, const Rect& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  const int x = std::min(a.x, b.x), y = std::min(a.y, b.y);
  return {x, y, std::max(a.right(), b.right()) - x, std::max(a.bottom(), b.bottom()) - y};
}

inline Rect Expand(const Rect& r, int margin) {
  return {r.x - margin, r.y - margin, r.width + 2 * margin, r.height + 2 * margin};
}

inline Rect Shift(const Rect& r, int x, int y) { return {r.x + x, r.y + y, r.width, r.height}; }

inline Rect Scale(const Rect& r, int factor) {
  return {r.x * factor, r.y * factor, r.width * factor, r.height * factor};
}

}  // namespace upscaled
