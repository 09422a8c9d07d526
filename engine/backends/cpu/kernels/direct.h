// Direct convolution in fp32: any kernel size, stride and padding, any tensors. It is the first
// layer of a network (RGB in), its 1x1 and strided layers, and the fallback for all others.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool DirectSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeDirect(const Layer& layer, Isa isa);

// One row of output, as plain arguments for the functions that are compiled per instruction set.
struct DirectArgs {
  static constexpr int kMaxKernel = 31;
  const float* src_rows[kMaxKernel];  // plane 0, at the first column that output 0 reads
  int src_planes;
  int src_channels;      // per plane
  int src_pixel_stride;  // floats
  size_t src_plane_stride;
  int kernel_px;
  int stride_px;
  float* dst_row;           // plane 0, at the first output
  int dst_channels;         // to store: a multiple of 16 when blocked
  int dst_pixel_stride;     // floats from one output to the next
  size_t dst_plane_stride;  // 0 when interleaved
  int width_px;
  const float* weights;
  EpilogueArgs epilogue;
};

// `out_vectors` vectors of output channels at a time.
struct DirectVariant {
  void (*run)(const DirectArgs& args);
  int out_vectors;
};

// By the number of vectors at a time, less one; fewer where registers are few.
struct DirectVariants {
  static constexpr int kMaxVectors = 3;
  DirectVariant blocked[kMaxVectors];     // blocked source, stride 1
  DirectVariant blocked_s2[kMaxVectors];  // blocked source, stride 2
  DirectVariant rgb[kMaxVectors];         // interleaved source of 3 channels, stride 1
  DirectVariant any;
};

// One convolution's packed weights and the function for them (move-only); for kernels that compute
// rows by it.
class DirectConvolution {
 public:
  DirectConvolution(const Layer& layer, Isa isa);

  // Computes `width_px` outputs from `src_rows` (kernel_px of them, in `src`, at the column that
  // the first output reads) into `dst_row` (in `dst`), `dst_step_px` pixels apart.
  void RunRow(const Tensor& src, const float* const* src_rows, const Tensor& dst, float* dst_row,
              int dst_step_px, int width_px) const;
  size_t WeightBytes() const { return weights_.bytes(); }

 private:
  HugeBuffer PackWeights(const Layer& layer) const;

  DirectVariant variant_;
  int kernel_px_;
  int stride_px_;
  int plane_channels_;
  int group_;  // output channels at a time
  Epilogue epilogue_;
  HugeBuffer weights_;
};

}  // namespace upscaled::cpu
