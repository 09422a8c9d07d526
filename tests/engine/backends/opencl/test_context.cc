#include "tests/engine/backends/opencl/test_context.h"

#include "engine/base/status_macros.h"

namespace upscaled::test {

absl::StatusOr<std::shared_ptr<opencl::Context>> MakeContext() {
  ASSIGN_OR_RETURN(const opencl::Device device, opencl::FindDevice("opencl"));
  ASSIGN_OR_RETURN(opencl::ProgramCache cache, opencl::ProgramCache::Open(UPSCALED_TEST_PROGRAMS));
  return opencl::Context::Create(device, std::move(cache));
}

}  // namespace upscaled::test
