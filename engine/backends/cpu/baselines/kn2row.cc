// A patch of pixels is laid out as a matrix, one pixel a row of all its input channels, kPitchPx
// pixels for each row of the image. Then the inputs that tap (ky, kx) multiplies, for all outputs
// of the patch at once, are the same matrix from row ky * kPitchPx + kx on, and
//
//   result += inputs(from that row) x weights(tap)
//
// over all taps is the convolution, nothing copied but the patch. Columns beyond the end of a row
// of the image, kernel - 1 columns of the result, are dropped.
//
// Every product has the same number of rows, a multiple of oneDNN's register tile: so a pixel's
// arithmetic does not depend on where in a patch, and so in a tile, it lies.
#include "engine/backends/cpu/baselines/kn2row.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "engine/backends/cpu/baselines/tensor_access.h"
#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/base/check.h"
#include "engine/model/without_weights.h"
#include "oneapi/dnnl/dnnl.h"

namespace upscaled::cpu {
namespace {

constexpr int kMaxKernel = 31;
constexpr int kPatchRows = 4;
constexpr int kPitchPx = 96;
constexpr int kPatchPx = kPatchRows * kPitchPx;

class Kn2rowKernel final : public LayerKernel {
 public:
  Kn2rowKernel(const Layer& layer, Isa isa)
      : layer_(WithoutWeights(layer)), curve_(CurveFunctionFor(isa)), weights_(TapByTap(layer)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    omp_set_num_threads(1);  // for this thread's products: a stream is one thread
    float* inputs = scratch;
    float* sums = scratch + InputFloats();
    const int columns = kPitchPx - (layer_.kernel_px - 1);
    for (int y = rows.y; y < rows.bottom(); y += kPatchRows) {
      for (int x = rows.x; x < rows.right(); x += columns) {
        const Rect patch{x, y, std::min(columns, rows.right() - x),
                         std::min(kPatchRows, rows.bottom() - y)};
        Gather(src[0], patch, inputs);
        Multiply(inputs, sums);
        Scatter(sums, patch, dst);
      }
    }
    for (int y = rows.y; y < rows.bottom(); ++y) {
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  Margin margin() const override { return {layer_.padding_px, layer_.padding_px}; }
  size_t ScratchFloats() const override {
    return InputFloats() + static_cast<size_t>(kPatchPx) * layer_.out_channels;
  }
  size_t WeightBytes() const override { return weights_.bytes(); }

 private:
  // The last tap of the last output reads kernel - 1 pixels beyond the patch's last row.
  size_t InputFloats() const {
    const int border = layer_.kernel_px - 1;
    return static_cast<size_t>((kPatchRows + border) * kPitchPx + border) * layer_.in_channels;
  }

  // [ky][kx][in][out]
  static HugeBuffer TapByTap(const Layer& layer) {
    const size_t taps = static_cast<size_t>(layer.kernel_px) * layer.kernel_px;
    const size_t in = layer.in_channels, out = layer.out_channels;
    HugeBuffer packed(layer.weights.size());
    for (size_t from = 0; from < packed.size(); ++from) {
      const size_t tap = from % taps, i = from / taps % in, o = from / taps / in;
      packed.data()[(tap * in + i) * out + o] = layer.weights[from];
    }
    return packed;
  }

  // Reads the inputs of the outputs of `patch`; zeros where it is smaller than a full one.
  void Gather(const Tensor& src, const Rect& patch, float* inputs) const {
    const int border = layer_.kernel_px - 1;
    std::fill_n(inputs, InputFloats(), 0.0f);
    for (int row = 0; row < patch.height + border; ++row) {
      const float* pixel = src.At(patch.y - layer_.padding_px + row, patch.x - layer_.padding_px);
      float* to = inputs + static_cast<size_t>(row) * kPitchPx * layer_.in_channels;
      for (int n = 0; n < patch.width + border; ++n, pixel += src.pixel_stride) {
        ForEachRun(src, pixel, [&](const float* values, int first, int count) {
          std::memcpy(to + first, values, count * sizeof(float));
        });
        to += layer_.in_channels;
      }
    }
  }

  void Multiply(const float* inputs, float* sums) const {
    const int in = layer_.in_channels, out = layer_.out_channels, k = layer_.kernel_px;
    const float* w = weights_.data();
    for (int tap = 0; tap < k * k; ++tap, w += static_cast<size_t>(in) * out) {
      const size_t shift_px = static_cast<size_t>(tap / k) * kPitchPx + tap % k;
      const dnnl_status_t status =
          dnnl_sgemm('N', 'N', kPatchPx, out, in, 1.0f, inputs + shift_px * in, in, w, out,
                     tap == 0 ? 0.0f : 1.0f, sums, out);
      UPSCALED_CHECK(status == dnnl_success);
    }
  }

  void Scatter(const float* sums, const Rect& patch, const Tensor& dst) const {
    for (int row = 0; row < patch.height; ++row) {
      const float* from = sums + static_cast<size_t>(row) * kPitchPx * layer_.out_channels;
      float* pixel = dst.At(patch.y + row, patch.x);
      for (int n = 0; n < patch.width; ++n, pixel += dst.pixel_stride) {
        ForEachRun(dst, pixel, [&](float* values, int first, int count) {
          const float* bias = layer_.bias.data() + first;
          for (int c = 0; c < count; ++c) values[c] = from[first + c] + bias[c];
        });
        ZeroSpareChannels(dst, pixel);
        from += layer_.out_channels;
      }
    }
  }

  const Layer layer_;
  const CurveFunction curve_;
  const HugeBuffer weights_;
};

}  // namespace

bool Kn2rowSupports(const Layer& layer) {
  return layer.op == Op::kConv && layer.stride_px == 1 && layer.kernel_px <= kMaxKernel;
}

std::unique_ptr<LayerKernel> MakeKn2row(const Layer& layer, Isa isa) {
  return std::make_unique<Kn2rowKernel>(layer, isa);
}

}  // namespace upscaled::cpu
