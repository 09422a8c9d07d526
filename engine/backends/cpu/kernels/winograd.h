// Winograd convolution F(4x4, 3x3) and F(6x6, 3x3) in fp32, for 3x3 kernels of stride 1 between
// blocked tensors: 4 and 5.06 times fewer multiplications than the direct algorithm.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool WinogradSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeWinogradF4(const Layer& layer, Isa isa);
std::unique_ptr<LayerKernel> MakeWinogradF6(const Layer& layer, Isa isa);

// One row of blocks, as plain arguments for the functions that are compiled per instruction set.
struct WinogradArgs {
  static constexpr int kMaxPoints = 8;
  const float* src_rows[kMaxPoints];  // plane 0, at the first block's first column
  size_t src_plane_stride;
  int src_planes;
  float* dst_rows[kMaxPoints];  // as many as there are rows to store
  int dst_row_count;
  size_t dst_plane_stride;
  int dst_channels;  // a multiple of 16
  int width_px;      // columns to store
  const float* weights;
  EpilogueArgs epilogue;
  float* scratch;
};

// One way to compute it: `out_channels` output channels at a time.
struct WinogradVariant {
  void (*run)(const WinogradArgs& args);
  size_t (*scratch_floats)(int src_planes);
  int out_channels;
};

struct WinogradVariants {
  WinogradVariant f4, f6;
  WinogradVariant f4_narrow, f6_narrow;  // for at most 16 output channels
};

}  // namespace upscaled::cpu
