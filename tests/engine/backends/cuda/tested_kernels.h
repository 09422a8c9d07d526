// Every convolution kernel, run thread by thread on the CPU.
#pragma once

#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/fused_conv.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::test {

// A kernel as it is launched, block by block.
struct TestedKernel {
  std::string_view name;
  Precision precision;
  int (*columns)(const cuda::ConvShape& shape);  // 0: not supported
  cuda::PackedConv (*pack)(const cuda::FusedConv& layers, int columns);
  void (*run)(const cuda::ConvParams& params, int columns, std::mt19937& random);
  bool adds_sums = false;
};

std::span<const TestedKernel> TestedKernels();

// Those of the layers that the kernel supports, at least one; the test fails if there is none.
std::vector<cuda::FusedConv> SupportedBy(const TestedKernel& kernel,
                                         const std::vector<Layer>& layers);

}  // namespace upscaled::test
