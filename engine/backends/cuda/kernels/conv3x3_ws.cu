// Compiled only for sm_90a.
#include <cuda_runtime.h>

#include <array>
#include <utility>

#include "engine/backends/cuda/kernels/conv3x3_ws_kernel.h"
#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/backends/cuda/kernels/ws_launch.h"

namespace upscaled::cuda {
namespace {

template <int kIndex>
__global__ void __launch_bounds__(WsVariant::kThreads, 1)
    Conv3x3WsKernel(const __grid_constant__ WsParams params) {
  RunConv3x3Ws<kWsVariants[kIndex]>(params);
}

using WsFunction = void (*)(WsParams);

template <int... kIndices>
constexpr auto ListKernels(std::integer_sequence<int, kIndices...>) {
  return std::array<WsFunction, sizeof...(kIndices)>{Conv3x3WsKernel<kIndices>...};
}
constexpr auto kKernels = ListKernels(std::make_integer_sequence<int, kWsVariantCount>());

// The driver's encoder, from libcuda, linked or not.
using Encoder = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                             const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                             const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                             CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

cudaError_t FindEncoder(Encoder& encoder) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &result);
  if (error != cudaSuccess) return error;
  encoder = reinterpret_cast<Encoder>(function);
  return function == nullptr ? cudaErrorNotSupported : cudaSuccess;
}

// Boxes of nothing have no map.
cudaError_t Encode(Encoder encoder, const TensorBoxes& boxes, CUtensorMap& map) {
  if (boxes.base == nullptr) return cudaSuccess;
  cuuint64_t sizes[4], strides[3];
  cuuint32_t box[4], steps[4] = {1, 1, 1, 1};
  std::copy_n(boxes.sizes, 4, sizes);
  std::copy_n(boxes.strides, 3, strides);
  std::copy_n(boxes.box, 4, box);
  const CUresult result =
      encoder(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, boxes.base, sizes, strides, box, steps,
              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
              CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchConv3x3Ws(const ConvParams& conv, const DeviceLimits& device,
                            cudaStream_t stream) {
  const int index = ChooseWsVariant(conv, device);
  if (index < 0) return cudaErrorInvalidValue;
  const WsVariant& variant = kWsVariants[index];
  const WsLaunch launch = MakeWsLaunch(variant, conv, device);
  if (launch.grid.count == 0) return cudaSuccess;
  Encoder encoder = nullptr;
  if (const cudaError_t error = FindEncoder(encoder); error != cudaSuccess) return error;
  WsParams params{
      .conv = conv, .grid = launch.grid, .units = launch.units, .stages = launch.stages};
  cudaError_t error = Encode(encoder, launch.src, params.src);
  for (int row = 0; row < 2 && error == cudaSuccess; ++row) {
    const WsResultBoxes& boxes = launch.results[row];
    WsResultMaps& maps = params.results[row];
    maps.first_y = boxes.first_y;
    maps.empty = boxes.empty;
    error = Encode(encoder, boxes.dst, maps.dst);
    if (error == cudaSuccess) error = Encode(encoder, boxes.residual, maps.residual);
  }
  if (error != cudaSuccess) return error;
  const auto* const function = reinterpret_cast<const void*>(kKernels[index]);
  error = GrantShared(function, device.shared_bytes);
  if (error != cudaSuccess) return error;
  kKernels[index]<<<dim3(launch.blocks, launch.column_blocks), WsVariant::kThreads,
                    launch.shared_bytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace upscaled::cuda
