// The matrix product that convolutions are made of: the door to the BLAS.
#pragma once

#include <cstddef>

namespace upscaled::train {

// A matrix in rows `stride` values apart, as it is multiplied: `transposed` says that it is stored
// the other way round.
template <typename Real>
struct Matrix {
  const Real* values;
  size_t stride;
  bool transposed = false;
};

// c (rows x columns, its rows `c_stride` apart) = a x b, or c + a x b to `add`; `depth` is what is
// summed over. On the calling thread, the same bits every time. Floats by oneDNN; doubles, for
// checks of gradients, by three loops.
void Gemm(int rows, int columns, int depth, Matrix<float> a, Matrix<float> b, bool add, float* c,
          size_t c_stride);
void Gemm(int rows, int columns, int depth, Matrix<double> a, Matrix<double> b, bool add, double* c,
          size_t c_stride);

}  // namespace upscaled::train
