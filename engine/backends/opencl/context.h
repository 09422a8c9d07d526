// What everything of one device shares.
#pragma once

#include "engine/backends/opencl/cl.h"
#include "engine/backends/opencl/device.h"
#include "engine/backends/opencl/programs.h"

namespace upscaled::opencl {

// Thread safe.
struct Context {
  Context(const Device& device, const cl::Context& handle, std::optional<ProgramCache> cache)
      : device(device), handle(handle), programs(device, handle, std::move(cache)) {}

  const Device device;
  const cl::Context handle;
  Programs programs;
};

}  // namespace upscaled::opencl
