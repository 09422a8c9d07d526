// The kernels' sources, embedded from kernels/*.cl when the backend is built.
#pragma once

#include <string_view>

namespace upscaled::opencl {

// In front of every program.
extern const std::string_view kCommonSource;
extern const std::string_view kConvSource;
extern const std::string_view kElementwiseSource;
extern const std::string_view kPixelsSource;
extern const std::string_view kPoolingSource;
extern const std::string_view kWinogradSource;

}  // namespace upscaled::opencl
