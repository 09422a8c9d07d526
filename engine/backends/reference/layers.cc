#include "engine/backends/reference/layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/base/int_math.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::reference {
namespace {

using Inputs = std::span<const Tensor* const>;

// Outputs are computed side by side, in vectors that every processor has.
constexpr int kBlock = 8;
using Pair [[gnu::vector_size(2 * sizeof(double))]] = double;
using Block = std::array<Pair, kBlock / 2>;

// Outputs of a row that are products with the same weights, and what they read.
struct ConvRow {
  int x, y, count;  // the first output
  int step;         // from one output to the next
  int src_step;
};

// A weight of the kernel, and what the first output of a row multiplies with it.
struct ConvTap {
  int index;  // ky * kernel_px + kx
  int src_x, src_y;
};

std::vector<ConvTap> ListTaps(const Layer& layer, const ConvRow& row, const Rect& src) {
  std::vector<ConvTap> taps;
  const int stride = layer.stride_px;
  for (int index = 0; index < layer.kernel_px * layer.kernel_px; ++index) {
    const int ky = index / layer.kernel_px, kx = index % layer.kernel_px;
    ConvTap tap{index, row.x * stride - layer.padding_px + kx,
                row.y * stride - layer.padding_px + ky};
    if (layer.op == Op::kConvTranspose) {
      const int x = row.x + layer.padding_px - kx, y = row.y + layer.padding_px - ky;
      tap = {index, FloorDiv(x, stride), FloorDiv(y, stride)};
      if (tap.src_x * stride != x || tap.src_y * stride != y) continue;
    }
    if (tap.src_y >= src.y && tap.src_y < src.bottom()) taps.push_back(tap);
  }
  return taps;
}

// [block][channel][tap]: what the outputs read, zero beyond the source.
std::vector<Block> GatherSources(const Tensor& src, int first_channel, int channels,
                                 const ConvRow& row, const std::vector<ConvTap>& taps) {
  const size_t products = channels * taps.size();
  std::vector<Block> sources(CeilDiv(row.count, kBlock) * products);
  for (int c = 0; c < channels; ++c) {
    for (size_t t = 0; t < taps.size(); ++t) {
      const float* src_row = src.row(first_channel + c, taps[t].src_y) - src.region.x;
      for (int i = 0; i < row.count; ++i) {
        const int x = taps[t].src_x + i * row.src_step;
        if (x < src.region.x || x >= src.region.right()) continue;
        sources[i / kBlock * products + c * taps.size() + t][i % kBlock / 2][i % 2] = src_row[x];
      }
    }
  }
  return sources;
}

// An output channel's weights: [channel of its group][tap].
std::vector<double> GatherWeights(const Layer& layer, int out, const std::vector<ConvTap>& taps) {
  const int group_in = layer.in_channels / layer.groups;
  std::vector<double> weights;
  for (int in = 0; in < group_in; ++in) {
    const size_t filter = layer.op == Op::kConvTranspose ? size_t{1} * in * layer.out_channels + out
                                                         : size_t{1} * out * group_in + in;
    const float* filter_weights = &layer.weights[filter * layer.kernel_px * layer.kernel_px];
    for (const ConvTap& tap : taps) weights.push_back(filter_weights[tap.index]);
  }
  return weights;
}

void SumProducts(const ConvRow& row, float bias, const std::vector<double>& weights,
                 const std::vector<Block>& sources, float* outputs) {
  const Block* source = sources.data();
  for (int first = 0; first < row.count; first += kBlock) {
    Block sums;
    sums.fill(Pair{} + bias);
    for (const double weight : weights) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * (*source)[i];
      ++source;
    }
    for (int i = 0; i < kBlock && first + i < row.count; ++i) {
      outputs[(first + i) * row.step] = static_cast<float>(sums[i / 2][i % 2]);
    }
  }
}

void Convolve(const Layer& layer, Inputs inputs, Tensor& dst) {
  const Rect& region = dst.region;
  const bool transposed = layer.op == Op::kConvTranspose;
  const int step = transposed ? layer.stride_px : 1, src_step = transposed ? 1 : layer.stride_px;
  const int group_in = layer.in_channels / layer.groups;
  const int group_out = layer.out_channels / layer.groups;
  for (int y = region.y; y < region.bottom(); ++y) {
    for (int x = 0; x < std::min(step, region.width); ++x) {
      const ConvRow row{region.x + x, y, CeilDiv(region.width - x, step), step, src_step};
      const std::vector<ConvTap> taps = ListTaps(layer, row, inputs[0]->region);
      for (int group = 0; group < layer.groups; ++group) {
        const std::vector<Block> sources =
            GatherSources(*inputs[0], group * group_in, group_in, row, taps);
        for (int out = group * group_out; out < (group + 1) * group_out; ++out) {
          SumProducts(row, layer.bias[out], GatherWeights(layer, out, taps), sources,
                      dst.row(out, y) + x);
        }
      }
    }
  }
}

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
  for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
    for (int x = dst.region.x; x < dst.region.right(); ++x) {
      double mean = 0, square = 0;
      for (int c = 0; layer.centred && c < src.channels; ++c) mean += src.at(c, x, y);
      mean /= src.channels;
      for (int c = 0; c < src.channels; ++c) square += std::pow(src.at(c, x, y) - mean, 2);
      const double deviation = std::sqrt(square / src.channels + layer.epsilon);
      for (int c = 0; c < src.channels; ++c) {
        dst.row(c, y)[x - dst.region.x] = static_cast<float>(
            (src.at(c, x, y) - mean) / deviation * layer.weights[c] + layer.bias[c]);
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
      Convolve(layer, inputs, dst);
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
