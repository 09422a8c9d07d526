// Every convolution kernel, best first. Plans and tests read the same list.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string_view>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/device_limits.h"
#include "engine/backends/cuda/kernels/fused_conv.h"
#include "engine/graph/kernel_set.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// The name of half_epilogue.h, a part of the kernels for tensor cores never run on our devices: it
// serves as an unseen kernel does.
inline constexpr std::string_view kHalfEpilogue = "half_epilogue";

// The name of gates that are part of the convolutions that read them: the factors go into weights
// and residuals. No device of ours has run them: they serve as an unseen kernel does.
inline constexpr std::string_view kFoldedGates = "folded_gates";

inline constexpr unsigned kFuseSum = kFuseAdd | kFuseCrop | kFuseResize;

struct ConvKernel : KernelInfo {
  bool (*supports)(const FusedConv& layers, Precision precision, const DeviceLimits& device);
  // For launches with the same layers, precision and device; the layers must be supported.
  PackedConv (*pack)(const FusedConv& layers, Precision precision, const DeviceLimits& device);
  // Enqueues on `stream`, may be captured into a graph. Tensors are of `precision`. An empty
  // dst.region launches nothing. cudaErrorInvalidValue when the parameters do not fit each other.
  cudaError_t (*launch)(const ConvParams& params, Precision precision, const DeviceLimits& device,
                        cudaStream_t stream);
  bool adds_sums = false;  // ConvParams::sums, of shapes with out_stride 1
  // Whether it can add a residual to these supported layers; null: it can, if `fuses` says so.
  bool (*adds_residual)(const FusedConv& layers, const DeviceLimits& device) = nullptr;
  // The side of its whole blocks of pixels: Program::block_px; null: 1.
  int (*block_px)(const FusedConv& layers, const DeviceLimits& device) = nullptr;
  // Whether it has run on a device of ours, and was right. Others are taken only after they have
  // proven themselves on the device at hand (BackendOptions::proven_kernels), or are forced.
  bool seen = true;
};

std::span<const ConvKernel> ListConvKernels();

}  // namespace upscaled::cuda
