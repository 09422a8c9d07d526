// Launches kernels; for files compiled by nvcc.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/device_limits.h"
#include "engine/backends/cuda/kernels/elementwise_kernel.h"

namespace upscaled::cuda {

// Lets a kernel be launched with up to shared_bytes of dynamic shared memory, beyond 48 KiB. The
// same for all launches of a kernel: another stream's thread may set it between this and the
// launch.
inline cudaError_t GrantShared(const void* kernel, size_t shared_bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(shared_bytes));
}

// A thread for each pixel of a region, plane and tile (elementwise_kernel.h).
template <typename Params>
cudaError_t LaunchPixels(void (*kernel)(Params), const Rect& region, int planes, int tiles,
                         const Params& params, cudaStream_t stream) {
  if (region.empty() || tiles == 0) return cudaSuccess;
  constexpr int kThreads = Elementwise::kThreads;
  const auto blocks = static_cast<unsigned>((region.Area() + kThreads - 1) / kThreads);
  kernel<<<dim3(blocks, planes, tiles), kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

using ConvFunction = void (*)(ConvParams, BlockGrid);

// Each block computes one rectangle for one of `column_blocks`. `shared_bytes` is the kernel's.
inline cudaError_t LaunchConv(ConvFunction kernel, int threads, uint32_t shared_bytes,
                              const BlockGrid& grid, int column_blocks, const ConvParams& params,
                              cudaStream_t stream) {
  if (grid.count == 0) return cudaSuccess;
  const cudaError_t error = GrantShared(reinterpret_cast<const void*>(kernel), shared_bytes);
  if (error != cudaSuccess) return error;
  kernel<<<dim3(grid.count, column_blocks), threads, shared_bytes, stream>>>(params, grid);
  return cudaGetLastError();
}

// As many blocks as run at once; each computes every so many-th rectangle. `shared_bytes` may
// differ from launch to launch.
inline cudaError_t LaunchPersistentConv(ConvFunction kernel, int threads, uint32_t shared_bytes,
                                        const BlockGrid& grid, int column_blocks,
                                        const ConvParams& params, const DeviceLimits& device,
                                        cudaStream_t stream) {
  if (grid.count == 0) return cudaSuccess;
  const auto* const function = reinterpret_cast<const void*>(kernel);
  cudaError_t error = GrantShared(function, device.shared_bytes);
  if (error != cudaSuccess) return error;
  int at_once = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, function, threads, shared_bytes);
  if (error != cudaSuccess) return error;
  const int blocks = std::max(1, at_once * device.multiprocessors / column_blocks);
  kernel<<<dim3(std::min(blocks, grid.count), column_blocks), threads, shared_bytes, stream>>>(
      params, grid);
  return cudaGetLastError();
}

}  // namespace upscaled::cuda
