// Totals of a block: of each warp by shuffles, then of the warps, in one order. For .cu files.
#pragma once

namespace upscaled::cuda {

inline constexpr int kWarp = 32;

__device__ __forceinline__ float ShuffleDown(float v, int offset) {
  return __shfl_down_sync(0xFFFFFFFFu, v, offset);
}
__device__ __forceinline__ float4 ShuffleDown(float4 v, int offset) {
  return make_float4(ShuffleDown(v.x, offset), ShuffleDown(v.y, offset), ShuffleDown(v.z, offset),
                     ShuffleDown(v.w, offset));
}

// In lane 0.
template <typename T, typename Combine>
__device__ __forceinline__ T WarpTotal(T value, Combine combine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, ShuffleDown(value, offset));
  }
  return value;
}

// In thread 0 of a block of kThreads, a multiple of a warp; all of them call it.
template <int kThreads, typename T, typename Combine>
__device__ __forceinline__ T BlockTotal(T value, int thread, Combine combine) {
  __shared__ T totals[kThreads / kWarp];
  value = WarpTotal(value, combine);
  if (thread % kWarp == 0) totals[thread / kWarp] = value;
  __syncthreads();
  if (thread == 0) {
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = combine(value, totals[warp]);
  }
  return value;
}

// The same through shared memory only.
template <int kThreads, typename T, typename Combine>
__device__ __forceinline__ T BlockTotalShared(T value, int thread, Combine combine) {
  __shared__ T values[kThreads];
  values[thread] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) values[thread] = combine(values[thread], values[thread + half]);
  }
  return values[0];
}

}  // namespace upscaled::cuda
