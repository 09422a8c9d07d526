// Six loops, no im2col, no blocking: every output value reads all its inputs and weights from
// memory again, ten values loaded for nine multiply-adds of a 3x3 kernel with one input channel,
// and one sum waits for the other.
#include "engine/backends/cpu/baselines/naive.h"

#include <algorithm>
#include <vector>

#include "engine/backends/cpu/baselines/tensor_access.h"
#include "engine/backends/cpu/kernels/activation.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

class NaiveKernel final : public LayerKernel {
 public:
  NaiveKernel(const Layer& layer, Isa isa)
      : layer_(WithoutWeights(layer)),
        curve_(CurveFunctionFor(isa)),
        weights_(ChannelsLast(layer)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int x = rows.x; x < rows.right(); ++x) {
        float* pixel = dst.At(y, x);
        for (int o = 0; o < layer_.out_channels; ++o) {
          pixel[dst.ChannelOffset(o)] = Sum(src[0], y, x, o);
        }
        ZeroSpareChannels(dst, pixel);
      }
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  Margin margin() const override { return {layer_.padding_px, layer_.padding_px}; }
  size_t WeightBytes() const override { return weights_.size() * sizeof(float); }

 private:
  // [out][ky][kx][in], in the order of the loops.
  static std::vector<float> ChannelsLast(const Layer& layer) {
    const size_t taps = static_cast<size_t>(layer.kernel_px) * layer.kernel_px;
    const size_t in = layer.in_channels;
    std::vector<float> weights(layer.weights.size());
    for (size_t from = 0; from < weights.size(); ++from) {
      const size_t tap = from % taps, i = from / taps % in, o = from / taps / in;
      weights[(o * taps + tap) * in + i] = layer.weights[from];
    }
    return weights;
  }

  float Sum(const Tensor& src, int y, int x, int out) const {
    const int k = layer_.kernel_px;
    const int left = x * layer_.stride_px - layer_.padding_px;
    const float* w = weights_.data() + static_cast<size_t>(out) * k * k * layer_.in_channels;
    float sum = layer_.bias[out];
    for (int ky = 0; ky < k; ++ky) {
      const float* pixel = src.At(y * layer_.stride_px - layer_.padding_px + ky, left);
      for (int kx = 0; kx < k; ++kx, pixel += src.pixel_stride) {
        ForEachRun(src, pixel, [&](const float* values, int /*first*/, int count) {
          for (int i = 0; i < count; ++i) sum += values[i] * *w++;
        });
      }
    }
    return sum;
  }

  const Layer layer_;
  const CurveFunction curve_;
  const std::vector<float> weights_;
};

}  // namespace

bool NaiveSupports(const Layer& layer) { return layer.op == Op::kConv; }

std::unique_ptr<LayerKernel> MakeNaive(const Layer& layer, Isa isa) {
  return std::make_unique<NaiveKernel>(layer, isa);
}

}  // namespace upscaled::cpu
