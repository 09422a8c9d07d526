#include "engine/backends/reference/layers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/backends/reference/attention.h"
#include "engine/backends/reference/convolution.h"
#include "engine/base/int_math.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::reference {
namespace {

using Inputs = std::span<const Tensor* const>;

void FullyConnect(const Layer& layer, Inputs inputs, Tensor& dst) {
  for (int out = 0; out < layer.out_channels; ++out) {
    double sum = layer.bias[out];
    for (int in = 0; in < layer.in_channels; ++in) {
      sum +=
          double{layer.weights[size_t{1} * out * layer.in_channels + in]} * inputs[0]->values[in];
    }
    dst.values[out] = static_cast<float>(sum);
  }
}

// Sets each value of `dst` to value_at(channel, x, y).
template <typename ValueAt>
void Fill(Tensor& dst, const ValueAt& value_at) {
  for (int c = 0; c < dst.channels; ++c) {
    for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
      float* row = dst.row(c, y);
      for (int x = dst.region.x; x < dst.region.right(); ++x) {
        row[x - dst.region.x] = value_at(c, x, y);
      }
    }
  }
}

void ShufflePixels(const Layer& layer, Inputs inputs, Tensor& dst) {
  const int f = layer.factor;
  Fill(dst, [&](int c, int x, int y) {
    return inputs[0]->at(c * f * f + y % f * f + x % f, x / f, y / f);
  });
}

void ResizeNearest(const Layer& layer, Inputs inputs, Tensor& dst) {
  Fill(dst,
       [&](int c, int x, int y) { return inputs[0]->at(c, x / layer.factor, y / layer.factor); });
}

// One axis of a bilinear sample: the two neighbours, at the edge twice the same, and the weight of
// the second.
struct Blend {
  int first, second;
  float weight;
};

Blend BlendAt(int position, int factor, int begin, int end) {
  const int twice = 2 * position + 1 - factor;  // 2 * factor * the source coordinate
  const int first = FloorDiv(twice, 2 * factor);
  const float weight = static_cast<float>(twice - first * 2 * factor) / (2.0f * factor);
  return {std::clamp(first, begin, end - 1), std::clamp(first + 1, begin, end - 1), weight};
}

void ResizeBilinear(const Layer& layer, Inputs inputs, Tensor& dst) {
  const Tensor& src = *inputs[0];
  Fill(dst, [&](int c, int x, int y) {
    const Blend h = BlendAt(x, layer.factor, src.region.x, src.region.right());
    const Blend v = BlendAt(y, layer.factor, src.region.y, src.region.bottom());
    const float top =
        std::lerp(src.at(c, h.first, v.first), src.at(c, h.second, v.first), h.weight);
    const float bottom =
        std::lerp(src.at(c, h.first, v.second), src.at(c, h.second, v.second), h.weight);
    return std::lerp(top, bottom, v.weight);
  });
}

void Add(Inputs inputs, Tensor& dst) {
  Fill(dst, [&](int c, int x, int y) { return inputs[0]->at(c, x, y) + inputs[1]->at(c, x, y); });
}

void Multiply(Inputs inputs, Tensor& dst) {
  const Tensor& factor = *inputs[1];
  const bool per_channel = factor.region == Rect{0, 0, 1, 1};
  Fill(dst, [&](int c, int x, int y) {
    return inputs[0]->at(c, x, y) * (per_channel ? factor.values[c] : factor.at(c, x, y));
  });
}

void Concatenate(Inputs inputs, Tensor& dst) {
  int first_channel = 0;
  for (const Tensor* src : inputs) {
    for (int c = 0; c < src->channels; ++c) {
      for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
        const float* src_row = src->row(c, y) + (dst.region.x - src->region.x);
        std::copy_n(src_row, dst.region.width, dst.row(first_channel + c, y));
      }
    }
    first_channel += src->channels;
  }
}

void Slice(const Layer& layer, Inputs inputs, Tensor& dst) {
  Fill(dst, [&](int c, int x, int y) { return inputs[0]->at(layer.first_channel + c, x, y); });
}

void NormalisePixels(const Layer& layer, Inputs inputs, Tensor& dst) {
  const Tensor& src = *inputs[0];
  const int share = src.channels / layer.groups;
  for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
    for (int x = dst.region.x; x < dst.region.right(); ++x) {
      for (int first = 0; first < src.channels; first += share) {
        const int end = first + share;
        double mean = 0, square = 0;
        for (int c = first; layer.centred && c < end; ++c) mean += src.at(c, x, y);
        mean /= share;
        for (int c = first; c < end; ++c) square += std::pow(src.at(c, x, y) - mean, 2);
        const double deviation = std::sqrt(square / share + layer.epsilon);
        for (int c = first; c < end; ++c) {
          dst.row(c, y)[x - dst.region.x] = static_cast<float>(
              (src.at(c, x, y) - mean) / deviation * layer.weights[c] + layer.bias[c]);
        }
      }
    }
  }
}

void NormaliseGroups(const Layer& layer, Inputs inputs, Tensor& dst) {
  const std::vector<float>& moments = inputs[1]->values;
  const int channels = layer.in_channels, group = channels / layer.groups;
  std::vector<double> means(channels), deviations(channels);
  for (int c = 0; c < channels; ++c) {
    const int first = c - c % group;
    double mean = 0, square = 0;
    for (int i = first; i < first + group; ++i) {
      mean += double{moments[i]} / group;
      square += double{moments[channels + i]} / group;
    }
    means[c] = mean;
    deviations[c] = std::sqrt(std::max(square - mean * mean, 0.0) + layer.epsilon);
  }
  Fill(dst, [&](int c, int x, int y) {
    const double normal = (inputs[0]->at(c, x, y) - means[c]) / deviations[c];
    return static_cast<float>(normal * layer.weights[c] + layer.bias[c]);
  });
}

void Crop(const Layer& layer, Inputs inputs, Tensor& dst) {
  Fill(dst,
       [&](int c, int x, int y) { return inputs[0]->at(c, x + layer.crop_px, y + layer.crop_px); });
}

void Pad(const Layer& layer, Inputs inputs, Tensor& dst) {
  const Size size = inputs[0]->layer;
  Fill(dst, [&](int c, int x, int y) {
    const int from_x = PadSource(layer, x, size.width);
    const int from_y = PadSource(layer, y, size.height);
    const bool inside = from_x >= 0 && from_x < size.width && from_y >= 0 && from_y < size.height;
    return inside ? inputs[0]->at(c, from_x, from_y) : layer.pad_value;
  });
}

void Affine(const Layer& layer, Inputs inputs, Tensor& dst) {
  Fill(dst, [&](int c, int x, int y) {
    return inputs[0]->at(c, x, y) * layer.weights[c] + layer.bias[c];
  });
}

// A position between two pixels of an axis of `side`. NaN is the first one.
struct Between {
  Between(double at, int side)
      : low(static_cast<int>(at > 0 ? std::min<double>(at, side - 1) : 0)),
        high(std::min(low + 1, side - 1)),
        weight(at > 0 ? std::min<double>(at, side - 1) - low : 0) {}

  int low, high;
  double weight;  // of `high`
};

void Sample(const Layer& layer, Inputs inputs, Tensor& dst) {
  const Tensor &src = *inputs[0], &offsets = *inputs[1];
  const int f = layer.factor, share = layer.in_channels / layer.groups;
  Fill(dst, [&](int c, int x, int y) {
    const int place = (c / share * f + y % f) * f + x % f;
    const Between h(x / f + double{offsets.at(place, x / f, y / f)}, src.layer.width);
    const Between v(y / f + double{offsets.at(layer.groups * f * f + place, x / f, y / f)},
                    src.layer.height);
    const double top =
        std::lerp(double{src.at(c, h.low, v.low)}, src.at(c, h.high, v.low), h.weight);
    const double bottom =
        std::lerp(double{src.at(c, h.low, v.high)}, src.at(c, h.high, v.high), h.weight);
    return static_cast<float>(std::lerp(top, bottom, v.weight));
  });
}

// Calls position(at, side) with each coordinate of a pixel and its axis' side: where it comes from.
template <typename Position>
void Rearrange(Inputs inputs, Tensor& dst, const Position& position) {
  const Size size = inputs[0]->layer;
  Fill(dst, [&](int c, int x, int y) {
    return inputs[0]->at(c, position(x, size.width), position(y, size.height));
  });
}

void MaxPool(const Layer& layer, Inputs inputs, Tensor& dst) {
  const Tensor& src = *inputs[0];
  Fill(dst, [&](int c, int x, int y) {
    const Rect window{x * layer.stride_px, y * layer.stride_px, layer.kernel_px, layer.kernel_px};
    const Rect read = Intersect(window, {0, 0, src.layer.width, src.layer.height});
    float largest = src.at(c, read.x, read.y);
    for (int v = read.y; v < read.bottom(); ++v) {
      for (int u = read.x; u < read.right(); ++u) largest = std::max(largest, src.at(c, u, v));
    }
    return largest;
  });
}

void AddResized(Inputs inputs, Tensor& dst) {
  const Tensor &first = *inputs[0], &second = *inputs[1];
  const auto between = [](int at, int side, int second_side) {
    return Between((at + 0.5) * second_side / side - 0.5, second_side);
  };
  Fill(dst, [&](int c, int x, int y) {
    const Between h = between(x, first.layer.width, second.layer.width);
    const Between v = between(y, first.layer.height, second.layer.height);
    const double top =
        std::lerp(double{second.at(c, h.low, v.low)}, second.at(c, h.high, v.low), h.weight);
    const double bottom =
        std::lerp(double{second.at(c, h.low, v.high)}, second.at(c, h.high, v.high), h.weight);
    return static_cast<float>(first.at(c, x, y) + std::lerp(top, bottom, v.weight));
  });
}

double Curve(Activation activation, double v) {
  switch (activation) {
    case Activation::kSilu:
      return v / (1 + std::exp(-v));
    case Activation::kMish:
      return v * std::tanh(std::log1p(std::exp(v)));
    case Activation::kGelu:
      return v * std::erfc(-v / std::sqrt(2.0)) / 2;
    case Activation::kGeluTanh:
      return v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))) / 2;
    case Activation::kSoftplus:
      return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
    default:
      return v;
  }
}

float Activate(const Layer& layer, int channel, float v) {
  switch (layer.activation) {
    case Activation::kNone:
      return v;
    case Activation::kRelu:
      return std::max(v, 0.0f);
    case Activation::kLeakyRelu:
      return v < 0 ? v * layer.slope[0] : v;
    case Activation::kPRelu:
      return v < 0 ? v * layer.slope[channel] : v;
    case Activation::kSigmoid:
      return 1.0f / (1.0f + std::exp(-v));
    case Activation::kClip:
      return std::clamp(v, layer.clip_min, layer.clip_max);
    default:
      return static_cast<float>(Curve(layer.activation, v));
  }
  return v;
}

}  // namespace

void ComputeLayer(const Layer& layer, Inputs inputs, Tensor& dst) {
  switch (layer.op) {
    case Op::kInput:
    case Op::kGlobalAveragePool:
      break;
    case Op::kConv:
    case Op::kGroupedConv:
    case Op::kConvTranspose:
      Convolve(layer, *inputs[0], dst);
      break;
    case Op::kPixelShuffle:
      ShufflePixels(layer, inputs, dst);
      break;
    case Op::kResizeNearest:
      ResizeNearest(layer, inputs, dst);
      break;
    case Op::kResizeBilinear:
      ResizeBilinear(layer, inputs, dst);
      break;
    case Op::kAdd:
      Add(inputs, dst);
      break;
    case Op::kMul:
      Multiply(inputs, dst);
      break;
    case Op::kConcat:
      Concatenate(inputs, dst);
      break;
    case Op::kSlice:
      Slice(layer, inputs, dst);
      break;
    case Op::kPixelNorm:
      NormalisePixels(layer, inputs, dst);
      break;
    case Op::kGroupNorm:
      NormaliseGroups(layer, inputs, dst);
      break;
    case Op::kWindowAttention:
      AttendWindows(layer, *inputs[0], dst);
      break;
    case Op::kChannelProducts:
      MultiplyChannels(layer, *inputs[0], dst);
      break;
    case Op::kChannelAttention:
      AttendChannels(layer, *inputs[0], *inputs[1], dst);
      break;
    case Op::kSample:
      Sample(layer, inputs, dst);
      break;
    case Op::kPartAttention:
      AttendParts(layer, *inputs[0], dst);
      break;
    case Op::kGridToWindows:
      Rearrange(inputs, dst,
                [f = layer.factor](int at, int side) { return at % f * (side / f) + at / f; });
      break;
    case Op::kWindowsToGrid:
      Rearrange(inputs, dst, [f = layer.factor](int at, int side) {
        return at % (side / f) * f + at / (side / f);
      });
      break;
    case Op::kMaxPool:
      MaxPool(layer, inputs, dst);
      break;
    case Op::kAddResized:
      AddResized(inputs, dst);
      break;
    case Op::kCrop:
      Crop(layer, inputs, dst);
      break;
    case Op::kPad:
      Pad(layer, inputs, dst);
      break;
    case Op::kAffine:
      Affine(layer, inputs, dst);
      break;
    case Op::kFullyConnected:
      FullyConnect(layer, inputs, dst);
      break;
    case Op::kActivation:
      Fill(dst, [&](int c, int x, int y) { return inputs[0]->at(c, x, y); });
      break;
  }
  const size_t plane = dst.region.Area();
  for (size_t i = 0; i < dst.values.size(); ++i) {
    dst.values[i] = Activate(layer, static_cast<int>(i / plane), dst.values[i]);
  }
}

}  // namespace upscaled::reference
