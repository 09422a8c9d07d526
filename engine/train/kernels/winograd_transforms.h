// The transforms of Winograd's convolution (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks"; 3x3, stride 1) and of its derivative by the weights. With the transforms of a
// layer's input (B^T d B), weights (G w G^T) and output (A^T m A), for every point p:
//
//   M[p]   = V[p] x U[p]      V: tiles x in, U: in x out, M: tiles x out
//   dU[p]  = V[p]^T x D[p]    D = A d A^T of the output's derivative; d_w = G^T dU G
//
// Points lie `point_stride` values apart: V, M and D [point][tile][channel], U [point][in][out].
#pragma once

#include <cstddef>

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::train {

// A square of pixels.
struct WinogradPixels {
  float* values;  // aligned to 16 values, as its strides are
  size_t line_stride, pixel_stride;
};

// The last steps of an output tile.
struct WinogradEpilogue {
  const float* bias = nullptr;  // a value a channel
  float slope = 1;              // of negative values
  bool add = false;             // to what is there
};

struct WinogradTransforms {
  int outputs;  // of a tile, a side; it reads two more
  // A tile of `channels` (a multiple of 16) into its place in V, and in D.
  void (*input)(const WinogradPixels& src, int channels, float* v, size_t point_stride);
  void (*gradient)(const WinogradPixels& src, int channels, float* d, size_t point_stride);
  // From its place in M; of the tile `lines` x `columns` exist.
  void (*output)(const float* m, size_t point_stride, int channels, int lines, int columns,
                 const WinogradEpilogue& epilogue, const WinogradPixels& dst);
  // `count` (a multiple of 16) weights [tap][count] into U, and the derivatives back.
  void (*weights)(const float* w, size_t count, float* u);
  void (*weight_gradient)(const float* u, size_t count, float* w);
};

const WinogradTransforms& WinogradF4For(cpu::Isa isa);
const WinogradTransforms& WinogradF6For(cpu::Isa isa);

}  // namespace upscaled::train
