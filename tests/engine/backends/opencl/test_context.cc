#include "tests/engine/backends/opencl/test_context.h"

#include "engine/backends/opencl/cl_status.h"
#include "engine/base/status_macros.h"

namespace upscaled::test {

absl::StatusOr<std::shared_ptr<opencl::Context>> MakeContext() {
  ASSIGN_OR_RETURN(const opencl::Device device, opencl::FindDevice("opencl"));
  ASSIGN_OR_RETURN(opencl::ProgramCache cache, opencl::ProgramCache::Open(UPSCALED_TEST_PROGRAMS));
  cl_int error = CL_SUCCESS;
  const cl::Context handle(device.handle, nullptr, nullptr, nullptr, &error);
  RETURN_IF_ERROR(opencl::ToStatus(error, "clCreateContext"));
  return std::make_shared<opencl::Context>(device, handle, std::move(cache));
}

}  // namespace upscaled::test
