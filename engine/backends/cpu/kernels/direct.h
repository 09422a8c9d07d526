// Direct convolution in fp32 and fp16: any kernel size, stride and padding, any tensors. It is the
// first layer of a network (RGB in), its 1x1 and strided layers, and the fallback for all others.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::cpu {

bool DirectSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeDirect(const Layer& layer, Isa isa);

// Blocked tensors are of halves; one of the two at least is blocked.
bool DirectFp16Supports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeDirectFp16(const Layer& layer, Isa isa);

// A row that a layer adds to its result, its second input's, if it has one; by its factors, if it
// has those.
struct ResidualRow {
  const float* data = nullptr;
  size_t plane_stride = 0;
  const float* factors = nullptr;
  size_t factor_plane_stride = 0;

  static ResidualRow At(std::span<const Tensor> src, int y, int x) {
    if (src.size() < 2) return {};
    const Tensor& t = src[1];
    return {t.At(y, x), t.plane_stride, t.factors, t.factor_plane_stride};
  }
};

// One convolution's packed weights and the function for them (move-only); for kernels with rows
// computed by it.
class DirectConvolution {
 public:
  // kFast: as MakeDirectFp16.
  DirectConvolution(const Layer& layer, Isa isa, Precision precision);

  // Computes `width_px` outputs from `src_rows` (kernel_px of them, in `src`, at the column that
  // the first output reads) into `dst_row` (in `dst`), `dst_step_px` pixels apart, as are those of
  // `residual`, which begins at the first output. `weights`: weights(), or those by the factors of
  // `src`.
  void RunRow(const Tensor& src, const float* const* src_rows, const float* weights,
              const Tensor& dst, float* dst_row, int dst_step_px, int width_px,
              const ResidualRow& residual) const;

  const float* weights() const { return weights_.data(); }
  size_t weight_count() const { return weights_.size(); }
  size_t WeightBytes() const { return weights_.bytes(); }
  // Writes weight_count() of them by the factors of `src`. In precision kExact.
  void ScaleWeights(const Tensor& src, float* scaled) const;
  // Outputs computed at a time: rows are best cut at multiples.
  int tile_px() const { return variant_.tile_px; }

 private:
  HugeBuffer PackWeights(const Layer& layer) const;

  DirectVariant variant_;
  int kernel_px_;
  int stride_px_;
  int dst_plane_channels_;  // a blocked destination's
  int src_plane_channels_;
  int group_;  // output channels at a time
  Epilogue epilogue_;
  HugeBuffer weights_;
};

}  // namespace upscaled::cpu
