// Operands of wgmma in shared memory, without swizzle, K-major: PTX ISA, "Matrix Descriptor". They
// consist of core matrices, 8 rows of 16 bytes one after the other.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"

namespace upscaled::cuda {

// `address`: in the state space .shared. `k_stride`, `row_stride`: bytes from one core matrix to
// the next along K (8 halves on) and along the rows (8 rows on). All are multiples of 16 below
// 2^18. An operand + n begins 16 n bytes later.
UPSCALED_HD constexpr uint64_t MakeOperand(uint32_t address, uint32_t k_stride,
                                           uint32_t row_stride) {
  return uint64_t{(address & 0x3FFFF) >> 4} | uint64_t{k_stride >> 4} << 16 |
         uint64_t{row_stride >> 4} << 32;
}

// Where value (row, k) of an operand lies.
UPSCALED_HD constexpr uint32_t OperandAddress(uint64_t operand, int row, int k) {
  const auto field = [&](int bit) { return static_cast<uint32_t>(operand >> bit & 0x3FFF) << 4; };
  return field(0) + row / 8 * field(32) + k / 8 * field(16) + row % 8 * 16 + k % 8 * 2;
}

}  // namespace upscaled::cuda
