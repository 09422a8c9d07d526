#!/usr/bin/env python3
"""Writes wgmma_shapes.h: m64nNk16 of halves for every N that a kernel takes.

Usage: wgmma_shapes.py >wgmma_shapes.h
"""

COLUMNS = (120, 128, 176, 184, 200, 216, 256)

print("""// Written by wgmma_shapes.py: m64nNk16 of halves with sums in fp32, operands from shared memory.
#pragma once

#ifdef __CUDACC__
// clang-format off
namespace upscaled::cuda {

// sums = a * b, or sums += a * b. Operands are descriptors (wgmma_operand.h).""")
for columns in COLUMNS:
    count = columns // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    print(f"""UPSCALED_DEVICE void MultiplyGroup(float (&d)[{count}], uint64_t a, uint64_t b, bool add) {{
  asm volatile(
      "{{\\n"
      ".reg .pred accumulate;\\n"
      "setp.ne.b32 accumulate, %{count + 2}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{registers}}}, %{count}, %{count + 1}, accumulate, 1, 1, 0, 0;\\n"
      "}}"
      : {sums}
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}}""")
print("""
}  // namespace upscaled::cuda
// clang-format on
#endif""")
