#include "engine/backends/cuda/kernels/gate.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "engine/backends/cuda/kernels/gate_kernel.h"

namespace upscaled::cuda {
namespace {

template <typename Weight, typename Storage>
__global__ void __launch_bounds__(Gate::kThreads)
    GateKernel(const __grid_constant__ GateParams params) {
  RunGate<Weight, Storage>(params);
}

template <typename Storage>
auto KernelFor(bool half_weights) {
  return half_weights ? GateKernel<Half, Storage> : GateKernel<float, Storage>;
}

}  // namespace

cudaError_t LaunchGate(const GateParams& params, bool half_weights, Precision precision,
                       cudaStream_t stream) {
  if (params.count == 0) return cudaSuccess;
  const int64_t blocks = (params.count + Gate::kThreads - 1) / Gate::kThreads;
  const auto kernel = precision == Precision::kFast ? KernelFor<Half>(half_weights)
                                                    : KernelFor<float>(half_weights);
  kernel<<<static_cast<unsigned>(std::min<int64_t>(blocks, Gate::kMaxBlocks)), Gate::kThreads, 0,
           stream>>>(params);
  return cudaGetLastError();
}

}  // namespace upscaled::cuda
