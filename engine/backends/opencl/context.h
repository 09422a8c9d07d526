// The state that everything of one device shares.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/cl.h"
#include "engine/backends/opencl/cl_status.h"
#include "engine/backends/opencl/device.h"
#include "engine/backends/opencl/programs.h"
#include "engine/base/byte_budget.h"
#include "engine/base/status_macros.h"
#include "engine/graph/activation_cache.h"

namespace upscaled::opencl {

// Thread safe.
struct Context {
  Context(const Device& device, const cl::Context& handle, std::optional<ProgramCache> cache)
      : device(device),
        handle(handle),
        programs(device, handle, std::move(cache)),
        kept(device.memory_bytes / kCachedShare) {}

  // Without a cache programs compile at every start.
  static absl::StatusOr<std::shared_ptr<Context>> Create(const Device& device,
                                                         std::optional<ProgramCache> cache) {
    cl_int error = CL_SUCCESS;
    const cl::Context handle(device.handle, nullptr, nullptr, nullptr, &error);
    RETURN_IF_ERROR(ToStatus(error, "clCreateContext"));
    return std::make_shared<Context>(device, handle, std::move(cache));
  }

  const Device device;
  const cl::Context handle;
  Programs programs;
  ByteBudget kept;  // the memory that tiles keep between their runs
};

}  // namespace upscaled::opencl
