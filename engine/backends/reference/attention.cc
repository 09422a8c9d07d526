#include "engine/backends/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/graph/windows.h"

namespace upscaled::reference {
namespace {

// Replaces scores by positive weights with a sum of 1.
void Softmax(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

// One pixel of one head.
void Attend(const Layer& layer, const Tensor& src, int head, int x, int y, Tensor& dst) {
  const int depth = layer.out_channels / layer.groups;
  const int query = head * depth, key = query + layer.out_channels,
            value = key + layer.out_channels;
  const Rect window = WindowAt(layer, x, y), keys = KeysOfWindow(layer, window);
  const Rect counted = Intersect(keys, CountedPixels(layer, src.layer));
  const Rect whole{0, 0, src.layer.width, src.layer.height};
  const auto at = [&](int channel, int px, int py) {
    return whole.Contains({px, py, 1, 1}) ? double{src.at(channel, px, py)} : 0.0;
  };
  const auto place = [](const Rect& in, int px, int py) {
    return (py - in.y) * in.width + (px - in.x);
  };
  const float* bias =
      layer.weights.data() + (head * window.Area() + place(window, x, y)) * keys.Area();
  std::vector<double> weights;
  for (int ty = counted.y; ty < counted.bottom(); ++ty) {
    for (int tx = counted.x; tx < counted.right(); ++tx) {
      double score = bias[place(keys, tx, ty)];
      for (int c = 0; c < depth; ++c) score += at(query + c, x, y) * at(key + c, tx, ty);
      weights.push_back(score);
    }
  }
  Softmax(weights);
  for (int c = 0; c < depth; ++c) {
    double result = 0;
    const double* weight = weights.data();
    for (int ty = counted.y; ty < counted.bottom(); ++ty) {
      for (int tx = counted.x; tx < counted.right(); ++tx) {
        result += *weight++ * at(value + c, tx, ty);
      }
    }
    dst.row(query + c, y)[x - dst.region.x] = static_cast<float>(result);
  }
}

// The weights of kChannelAttention: [query][key of its head].
std::vector<std::vector<double>> ChannelWeights(const Layer& layer,
                                                const std::vector<float>& means) {
  const int channels = layer.out_channels, depth = channels / layer.groups;
  const float *squares = means.data() + size_t{1} * channels * depth,
              *key_squares = squares + channels;
  std::vector<std::vector<double>> weights;
  for (int query = 0; query < channels; ++query) {
    const int first = query - query % depth;
    std::vector<double> scores;
    for (int key = 0; key < depth; ++key) {
      const double length = std::sqrt(double{squares[query]} * key_squares[first + key]);
      const double product = means[size_t{1} * query * depth + key];
      scores.push_back(layer.weights[query / depth] * product / std::max(length, kMinChannelNorm));
    }
    Softmax(scores);
    weights.push_back(std::move(scores));
  }
  return weights;
}

// Calls function(x, y) for each pixel of the part that holds a pixel.
template <typename Function>
void ForPart(const Layer& layer, Size size, int x, int y, const Function& function) {
  const int step = layer.factor;
  const Rect part =
      step > 1 ? Rect{x % step, y % step, size.width, size.height} : WindowAt(layer, x, y);
  for (int v = part.y; v < std::min(part.bottom(), size.height); v += step) {
    for (int u = part.x; u < std::min(part.right(), size.width); u += step) function(u, v);
  }
}

// The weights of a pixel's value channels in the result of one: [key of its head].
std::vector<double> PartWeights(const Layer& layer, const Tensor& src, int channel, int x, int y) {
  const int channels = layer.out_channels, depth = channels / layer.groups;
  const auto product = [&](int a, int b) {
    double sum = 0;
    ForPart(layer, src.layer, x, y,
            [&](int u, int v) { sum += double{src.at(a, u, v)} * src.at(b, u, v); });
    return sum;
  };
  const auto length = [&](int a) { return std::max(std::sqrt(product(a, a)), kMinChannelNorm); };
  std::vector<double> weights;
  for (int i = 0; i < depth; ++i) {
    const int key = channels + channel - channel % depth + i;
    weights.push_back(layer.weights[channel / depth] * product(channel, key) /
                      (length(channel) * length(key)));
  }
  Softmax(weights);
  return weights;
}

}  // namespace

void AttendWindows(const Layer& layer, const Tensor& src, Tensor& dst) {
  for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
    for (int x = dst.region.x; x < dst.region.right(); ++x) {
      for (int head = 0; head < layer.groups; ++head) Attend(layer, src, head, x, y, dst);
    }
  }
}

void MultiplyChannels(const Layer& layer, const Tensor& src, Tensor& dst) {
  const int channels = layer.in_channels / 3, depth = channels / layer.groups;
  for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
    for (int x = dst.region.x; x < dst.region.right(); ++x) {
      int result = 0;
      const auto add = [&](int a, int b) {
        dst.row(result++, y)[x - dst.region.x] = src.at(a, x, y) * src.at(b, x, y);
      };
      for (int query = 0; query < channels; ++query) {
        const int first = channels + query - query % depth;
        for (int key = first; key < first + depth; ++key) add(query, key);
      }
      for (int c = 0; c < 2 * channels; ++c) add(c, c);
    }
  }
}

void AttendChannels(const Layer& layer, const Tensor& src, const Tensor& means, Tensor& dst) {
  const int channels = layer.out_channels, depth = channels / layer.groups;
  const std::vector<std::vector<double>> weights = ChannelWeights(layer, means.values);
  for (int c = 0; c < channels; ++c) {
    const int first = 2 * channels + c - c % depth;
    for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
      for (int x = dst.region.x; x < dst.region.right(); ++x) {
        double sum = 0;
        for (int i = 0; i < depth; ++i) sum += weights[c][i] * src.at(first + i, x, y);
        dst.row(c, y)[x - dst.region.x] = static_cast<float>(sum);
      }
    }
  }
}

void AttendParts(const Layer& layer, const Tensor& src, Tensor& dst) {
  const int channels = layer.out_channels, depth = channels / layer.groups;
  const auto first_of_part = [&](int at, int window_px) {
    return layer.factor > 1 ? at % layer.factor : at - at % window_px;
  };
  for (int c = 0; c < channels; ++c) {
    std::map<std::pair<int, int>, std::vector<double>> weights;  // by a part's first pixel
    for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
      for (int x = dst.region.x; x < dst.region.right(); ++x) {
        std::vector<double>& part = weights[{first_of_part(x, layer.window_x.window_px),
                                             first_of_part(y, layer.window_y.window_px)}];
        if (part.empty()) part = PartWeights(layer, src, c, x, y);
        double sum = 0;
        for (int i = 0; i < depth; ++i)
          sum += part[i] * src.at(2 * channels + c - c % depth + i, x, y);
        dst.row(c, y)[x - dst.region.x] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace upscaled::reference
