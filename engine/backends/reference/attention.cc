#include "engine/backends/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::reference {
namespace {

// The window that holds a pixel; it may hang over the layer's ends.
Rect WindowAt(const Layer& layer, int x, int y) {
  const auto begin = [&layer](int at) { return BlockBegin(at, layer.window_px, -layer.shift_px); };
  return {begin(x), begin(y), layer.window_px, layer.window_px};
}

// One pixel of one head.
void Attend(const Layer& layer, const Tensor& src, int head, int x, int y, Tensor& dst) {
  const int depth = layer.out_channels / layer.groups;
  const int query = head * depth, key = query + layer.out_channels,
            value = key + layer.out_channels;
  const Rect window = WindowAt(layer, x, y);
  const Rect inside = Intersect(window, {0, 0, src.layer.width, src.layer.height});
  const auto place = [&](int px, int py) {
    return (py - window.y) * layer.window_px + (px - window.x);
  };
  const size_t area = size_t{1} * layer.window_px * layer.window_px;
  const float* bias = layer.weights.data() + (head * area + place(x, y)) * area;
  std::vector<double> scores;
  for (int ty = inside.y; ty < inside.bottom(); ++ty) {
    for (int tx = inside.x; tx < inside.right(); ++tx) {
      double score = bias[place(tx, ty)];
      for (int c = 0; c < depth; ++c) {
        score += double{src.at(query + c, x, y)} * src.at(key + c, tx, ty);
      }
      scores.push_back(score);
    }
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (int c = 0; c < depth; ++c) {
    double result = 0;
    const double* weight = scores.data();
    for (int ty = inside.y; ty < inside.bottom(); ++ty) {
      for (int tx = inside.x; tx < inside.right(); ++tx) {
        result += *weight++ * src.at(value + c, tx, ty);
      }
    }
    dst.row(query + c, y)[x - dst.region.x] = static_cast<float>(result / sum);
  }
}

}  // namespace

void AttendWindows(const Layer& layer, const Tensor& src, Tensor& dst) {
  for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
    for (int x = dst.region.x; x < dst.region.right(); ++x) {
      for (int head = 0; head < layer.groups; ++head) Attend(layer, src, head, x, y, dst);
    }
  }
}

}  // namespace upscaled::reference
