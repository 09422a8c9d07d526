// Every convolution kernel, run thread by thread on the CPU.
#pragma once

#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/device_limits.h"
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
  // Whether it takes layers of a supported shape; null: all of them.
  bool (*takes)(const cuda::FusedConv& layers) = nullptr;
};

std::span<const TestedKernel> TestedKernels();

inline constexpr cuda::DeviceLimits kHopper{90, 132, 232448};

// Runs one of kWsVariants, a fitting one, in this number of stages; 0: a random one.
void RunWsVariant(const cuda::ConvParams& params, int index, std::mt19937& random, int stages = 0);

// The supported layers, at least one; the test fails without any.
std::vector<cuda::FusedConv> SupportedBy(const TestedKernel& kernel,
                                         const std::vector<Layer>& layers);

}  // namespace upscaled::test
