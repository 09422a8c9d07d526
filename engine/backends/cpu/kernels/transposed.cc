// A transposed convolution of stride s is s x s ordinary ones, one for each phase of the output's
// rows and columns: output x of phase r = (x + padding) mod s takes the taps r, r + s, ... of the
// kernel from inputs (x + padding - tap) / s. Each runs as a direct convolution of
// ceil(kernel / s) taps, flipped, with zero weights for the taps beyond the kernel.
#include "engine/backends/cpu/kernels/transposed.h"

#include <algorithm>
#include <vector>

#include "engine/backends/cpu/kernels/direct.h"

namespace upscaled::cpu {
namespace {

int TapsPerPhase(const Layer& layer) {
  return (layer.kernel_px + layer.stride_px - 1) / layer.stride_px;
}

// The ordinary convolution of one phase.
Layer PhaseLayer(const Layer& layer, int phase_y, int phase_x) {
  const int taps = TapsPerPhase(layer), k = layer.kernel_px;
  Layer phase = layer;
  phase.op = Op::kConv;
  phase.kernel_px = taps;
  phase.stride_px = 1;
  if (layer.weights.empty()) return phase;
  phase.weights.assign(static_cast<size_t>(layer.out_channels) * layer.in_channels * taps * taps,
                       0.0f);
  float* dst = phase.weights.data();
  for (int o = 0; o < layer.out_channels; ++o) {
    for (int i = 0; i < layer.in_channels; ++i) {
      const float* src = &layer.weights[(static_cast<size_t>(i) * layer.out_channels + o) * k * k];
      for (int ty = taps - 1; ty >= 0; --ty) {
        for (int tx = taps - 1; tx >= 0; --tx, ++dst) {
          const int ky = phase_y + ty * layer.stride_px, kx = phase_x + tx * layer.stride_px;
          if (ky < k && kx < k) *dst = src[ky * k + kx];
        }
      }
    }
  }
  return phase;
}

class TransposedKernel final : public LayerKernel {
 public:
  TransposedKernel(const Layer& layer, Isa isa, Precision precision)
      : kernel_px_(layer.kernel_px),
        stride_px_(layer.stride_px),
        padding_px_(layer.padding_px),
        crop_px_(layer.crop_px),
        reads_factors_(precision == Precision::kExact),
        taps_(TapsPerPhase(layer)) {
    for (int y = 0; y < stride_px_; ++y) {
      for (int x = 0; x < stride_px_; ++x) {
        phases_.emplace_back(PhaseLayer(layer, y, x), isa, precision);
      }
    }
  }

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    const bool scaled = src[0].factors != nullptr;
    for (size_t phase = 0; scaled && phase < phases_.size(); ++phase) {
      phases_[phase].ScaleWeights(src[0], scratch + phase * phases_[phase].weight_count());
    }
    // The phases of a row take turns: their inputs and the lines between their outputs are in the
    // core's cache then.
    const int part_px = stride_px_ * phases_.front().tile_px();
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int begin = rows.x; begin < rows.right(); begin += part_px) {
        const int end = std::min(rows.right(), begin + part_px);
        for (int x = begin; x < std::min(end, begin + stride_px_); ++x) {
          RunPhase(src, scaled ? scratch : nullptr, dst, y, x,
                   (end - x + stride_px_ - 1) / stride_px_);
        }
      }
    }
  }

  Margin margin() const override { return {taps_ - 1, taps_ - 1}; }
  size_t WeightBytes() const override {
    size_t bytes = 0;
    for (const DirectConvolution& phase : phases_) bytes += phase.WeightBytes();
    return bytes;
  }
  std::optional<size_t> FactorScratchFloats() const override {
    if (!reads_factors_) return std::nullopt;
    return phases_.size() * phases_.front().weight_count();
  }

 private:
  // Outputs (x + n * stride, y) for n < count. `scaled`: all phases' weights by the factors of the
  // first input, if it has those.
  void RunPhase(std::span<const Tensor> src, const float* scaled, const Tensor& dst, int y, int x,
                int count) const {
    const int phase_y = (y + padding_px_) % stride_px_, phase_x = (x + padding_px_) % stride_px_;
    const int last_y = (y + padding_px_) / stride_px_, last_x = (x + padding_px_) / stride_px_;
    const float* src_rows[DirectArgs::kMaxKernel];
    for (int t = 0; t < taps_; ++t) {
      // Taps beyond the kernel read the zero row, not uncomputed rows.
      const bool in_kernel = phase_y + t * stride_px_ < kernel_px_;
      src_rows[taps_ - 1 - t] = src[0].At(in_kernel ? last_y - t : -1, last_x - (taps_ - 1));
    }
    const int number = phase_y * stride_px_ + phase_x;
    const DirectConvolution& phase = phases_[number];
    phase.RunRow(src[0], src_rows,
                 scaled ? scaled + number * phase.weight_count() : phase.weights(), dst,
                 dst.At(y, x), stride_px_, count, ResidualRow::At(src, y + crop_px_, x + crop_px_));
  }

  const int kernel_px_;
  const int stride_px_;
  const int padding_px_;
  const int crop_px_;
  const bool reads_factors_;
  const int taps_;
  std::vector<DirectConvolution> phases_;
};

}  // namespace

bool TransposedSupports(const Layer& layer) {
  return layer.op == Op::kConvTranspose && TapsPerPhase(layer) <= DirectArgs::kMaxKernel;
}

std::unique_ptr<LayerKernel> MakeTransposed(const Layer& layer, Isa isa) {
  return std::make_unique<TransposedKernel>(layer, isa, Precision::kExact);
}

bool TransposedFp16Supports(const Layer& layer) {
  return TransposedSupports(layer) && (layer.in_channels > kMaxInterleavedChannels ||
                                       layer.out_channels > kMaxInterleavedChannels);
}

std::unique_ptr<LayerKernel> MakeTransposedFp16(const Layer& layer, Isa isa) {
  return std::make_unique<TransposedKernel>(layer, isa, Precision::kFast);
}

}  // namespace upscaled::cpu
