// The image kernels' sources, embedded when built.
#pragma once

#include <string_view>

namespace upscaled::opencl {

extern const std::string_view kBilateralSource;
extern const std::string_view kReduceSource;
extern const std::string_view kTransposeSource;

}  // namespace upscaled::opencl
