// The matrix product inside convolutions and their derivatives.
#pragma once

#include <cstddef>

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::train {

// c (rows x columns) = a x b, or c + a x b to `add`; `depth` is the number of summands. The same
// bits every time.
template <typename Real>
struct ProductArgs {
  int rows, columns, depth;  // columns: a multiple of 16
  const Real* a;
  size_t a_row, a_depth;  // values from a row to the next, and along the depth; one of them is 1
  const Real* b;          // depth x columns, aligned to 16 values as c is
  size_t b_stride;        // between rows
  Real* c;
  size_t c_stride;
  bool add;
};

template <typename Real>
using ProductFunction = void (*)(const ProductArgs<Real>& args);

// The product of doubles, for checks of gradients, is three loops on every ISA.
template <typename Real>
ProductFunction<Real> ProductFor(cpu::Isa isa);

}  // namespace upscaled::train
