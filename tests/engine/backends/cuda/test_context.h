// The device of the CUDA tests.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/base/status_macros.h"

namespace upscaled::test {

// The first CUDA device, entered. UNAVAILABLE: the test should skip itself.
inline absl::StatusOr<std::shared_ptr<cuda::Context>> MakeContext() {
  ASSIGN_OR_RETURN(const cuda::Device device, cuda::FindDevice("cuda"));
  ASSIGN_OR_RETURN(
      auto context,
      cuda::Context::Create(device, {.proven_kernels = {std::string(cuda::kHalfEpilogue)}}));
  RETURN_IF_ERROR(context->Enter());
  return context;
}

}  // namespace upscaled::test
