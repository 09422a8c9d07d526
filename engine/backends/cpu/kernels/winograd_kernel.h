// A Winograd convolution of any variant: its packed weights, and rows of blocks in a ring of rows.
#pragma once

#include <array>
#include <cstddef>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Calls `visit(value, y, x)` with every point of G w G^T, w being 3x3.
template <size_t kPoints, typename Visit>
void TransformWeights(const float* w, const std::array<std::array<double, 3>, kPoints>& g,
                      Visit visit) {
  for (size_t y = 0; y < kPoints; ++y) {
    double row[3];
    for (int x = 0; x < 3; ++x) row[x] = g[y][0] * w[x] + g[y][1] * w[3 + x] + g[y][2] * w[6 + x];
    for (size_t x = 0; x < kPoints; ++x) {
      visit(row[0] * g[x][0] + row[1] * g[x][1] + row[2] * g[x][2], static_cast<int>(y),
            static_cast<int>(x));
    }
  }
}

// As a variant takes them; scales are those of WinogradArgs.
struct WinogradWeights {
  HugeBuffer values;
  HugeBuffer src_scale;
  HugeBuffer dst_scale;
};

class WinogradKernel final : public LayerKernel {
 public:
  // Blocks of `outputs` (at most 6) a side; for a core with so large a cache of its own.
  WinogradKernel(const Layer& layer, int outputs, const WinogradVariant& variant,
                 size_t cache_bytes, WinogradWeights weights);

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override;
  int block_px() const override { return outputs_; }
  // Partial blocks read up to outputs - 1 columns beyond the layer's padded ends.
  Margin margin() const override {
    return {padding_px_ + outputs_ - 1, padding_px_ + outputs_ - 1};
  }
  size_t ScratchFloats() const override { return variant_.scratch_floats(src_planes_); }
  size_t WeightBytes() const override {
    return weights_.values.bytes() + weights_.src_scale.bytes() + weights_.dst_scale.bytes();
  }

 private:
  // Bytes of the input rows of one row of blocks: more streams than hardware prefetchers follow.
  size_t SrcBytes(int width_px) const {
    return sizeof(float) * kPlaneFloats * (outputs_ + 2) * src_planes_ * width_px;
  }

  const int outputs_;
  const WinogradVariant variant_;
  const size_t cache_bytes_;
  const int padding_px_;
  const int crop_px_;  // of what it adds
  const int src_planes_;
  const int src_channels_;
  const int dst_channels_;
  const Epilogue epilogue_;
  const WinogradWeights weights_;
};

}  // namespace upscaled::cpu
