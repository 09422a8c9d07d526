// Picks the symbol of one instruction set. For the HWY_ONCE part of a kernel file, after
// hwy/foreach_target.h has compiled `symbol` once per target.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"
#include "hwy/highway.h"

#if HWY_TARGETS & HWY_AVX3
#define UPSCALED_CASE_AVX3(symbol) \
  case Isa::kAvx512Fp16:           \
  case Isa::kAvx512Vnni:           \
  case Isa::kAvx512:               \
    return &N_AVX3::symbol;
#else
#define UPSCALED_CASE_AVX3(symbol)
#endif
#if HWY_TARGETS & HWY_AVX2
#define UPSCALED_CASE_AVX2(symbol) \
  case Isa::kAvx2:                 \
    return &N_AVX2::symbol;
#else
#define UPSCALED_CASE_AVX2(symbol)
#endif
#if HWY_TARGETS & HWY_SSE4
#define UPSCALED_CASE_SSE4(symbol) \
  case Isa::kSse4:                 \
    return &N_SSE4::symbol;
#else
#define UPSCALED_CASE_SSE4(symbol)
#endif
#if HWY_TARGETS & HWY_NEON
#define UPSCALED_CASE_NEON(symbol) \
  case Isa::kNeon:                 \
    return &N_NEON::symbol;
#else
#define UPSCALED_CASE_NEON(symbol)
#endif
#if HWY_TARGETS & HWY_EMU128
#define UPSCALED_CASE_PORTABLE(symbol) \
  case Isa::kPortable:                 \
    return &N_EMU128::symbol;
#elif HWY_TARGETS & HWY_SCALAR
#define UPSCALED_CASE_PORTABLE(symbol) \
  case Isa::kPortable:                 \
    return &N_SCALAR::symbol;
#else
#define UPSCALED_CASE_PORTABLE(symbol)
#endif

// `isa` must be one of ListIsas(); any other gives null.
#define UPSCALED_RETURN_ADDRESS_FOR(isa, symbol) \
  switch (isa) {                                 \
    UPSCALED_CASE_AVX3(symbol)                   \
    UPSCALED_CASE_AVX2(symbol)                   \
    UPSCALED_CASE_SSE4(symbol)                   \
    UPSCALED_CASE_NEON(symbol)                   \
    UPSCALED_CASE_PORTABLE(symbol)               \
    default:                                     \
      return nullptr;                            \
  }
