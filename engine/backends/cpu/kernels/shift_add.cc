#include "engine/backends/cpu/kernels/shift_add.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

constexpr int kMaxTapChannels = 64;

// Four floats, added as one; the compilers' own vectors, on every instruction set.
typedef float Lanes __attribute__((vector_size(kMaxInterleavedChannels * sizeof(float))));

class ShiftAddKernel final : public LayerKernel {
 public:
  ShiftAddKernel(const Layer& layer, Isa isa)
      : layer_(WithoutWeights(layer)),
        curve_(CurveFunctionFor(isa)),
        transposed_(layer.op == Op::kConvTranspose),
        step_px_(transposed_ ? layer.stride_px : 1) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int x = rows.x; x < std::min(rows.right(), rows.x + step_px_); ++x) {
        const int count = (rows.right() - x + step_px_ - 1) / step_px_;
        if (layer_.out_channels == 3) {
          SumPhase<3>(src[0], y, x, count, dst.At(y, x));
        } else {
          SumPhase<0>(src[0], y, x, count, dst.At(y, x));
        }
      }
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  // Inputs (x + padding - tap) / stride of a transposed layer, x - padding + tap of a plain one.
  Margin margin() const override {
    const int side = transposed_ ? (layer_.kernel_px - 1) / layer_.stride_px : layer_.padding_px;
    return {side, side};
  }

 private:
  struct Taps {
    std::array<const float*, kMaxTapChannels> at;  // for the first output; the next is a pixel on
    int count = 0;
  };

  // The taps of output (x, y).
  Taps TapsOf(const Tensor& src, int y, int x) const {
    const int k = layer_.kernel_px, s = step_px_, padding = layer_.padding_px;
    Taps taps;
    for (int ky = 0; ky < k; ++ky) {
      if (transposed_ && (y + padding - ky) % s != 0) continue;
      for (int kx = 0; kx < k; ++kx) {
        if (transposed_ && (x + padding - kx) % s != 0) continue;
        const int src_y = transposed_ ? (y + padding - ky) / s : y - padding + ky;
        const int src_x = transposed_ ? (x + padding - kx) / s : x - padding + kx;
        taps.at[taps.count++] = src.At(src_y, src_x) + (ky * k + kx) * layer_.out_channels;
      }
    }
    return taps;
  }

  // Outputs (x + n * step, y) for n < count. Four lanes for any channel count: those beyond it are
  // dropped. kChannels at compile time, or 0: as the layer says.
  template <int kChannels>
  void SumPhase(const Tensor& src, int y, int x, int count, float* dst) const {
    const Taps taps = TapsOf(src, y, x);
    const int channels = kChannels > 0 ? kChannels : layer_.out_channels;
    const size_t dst_step = static_cast<size_t>(step_px_) * channels;
    Lanes bias{};
    std::memcpy(&bias, layer_.bias.data(), channels * sizeof(float));
    for (int n = 0; n < count; ++n, dst += dst_step) {
      Lanes sum = bias;
      for (int t = 0; t < taps.count; ++t) {
        Lanes tap;
        std::memcpy(&tap, taps.at[t] + static_cast<size_t>(n) * src.pixel_stride, sizeof(tap));
        sum += tap;
      }
      std::memcpy(dst, &sum, channels * sizeof(float));
    }
  }

  const Layer layer_;
  const CurveFunction curve_;
  const bool transposed_;
  const int step_px_;
};

}  // namespace

int TapChannels(const Layer& layer) {
  return RoundUp(layer.kernel_px * layer.kernel_px * layer.out_channels, kPlaneChannels);
}

bool ShiftAddSupports(const Layer& layer) {
  const bool plain = layer.op == Op::kConv && layer.stride_px == 1;
  return (plain || layer.op == Op::kConvTranspose) && layer.kernel_px > 1 &&
         layer.in_channels > kMaxInterleavedChannels &&
         layer.out_channels <= kMaxInterleavedChannels && TapChannels(layer) <= kMaxTapChannels;
}

Layer TapProducts(const Layer& layer) {
  const int taps = layer.kernel_px * layer.kernel_px;
  Layer products;
  products.op = Op::kConv;
  products.name = layer.name + " (taps)";
  products.in_channels = layer.in_channels;
  products.out_channels = TapChannels(layer);
  products.bias.assign(products.out_channels, 0.0f);
  if (layer.weights.empty()) return products;
  products.weights.assign(static_cast<size_t>(products.out_channels) * layer.in_channels, 0.0f);
  for (int o = 0; o < layer.out_channels; ++o) {
    for (int i = 0; i < layer.in_channels; ++i) {
      const size_t pair = layer.op == Op::kConv ? static_cast<size_t>(o) * layer.in_channels + i
                                                : static_cast<size_t>(i) * layer.out_channels + o;
      for (int tap = 0; tap < taps; ++tap) {
        const size_t channel = static_cast<size_t>(tap) * layer.out_channels + o;
        products.weights[channel * layer.in_channels + i] = layer.weights[pair * taps + tap];
      }
    }
  }
  return products;
}

std::unique_ptr<LayerKernel> MakeShiftAdd(const Layer& layer, Isa isa) {
  return std::make_unique<ShiftAddKernel>(layer, isa);
}

}  // namespace upscaled::cpu
