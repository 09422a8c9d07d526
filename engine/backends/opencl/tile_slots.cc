#include "engine/backends/opencl/tile_slots.h"

#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/tensor.h"

namespace upscaled::opencl {

absl::Status TileSlots::Reserve(const Context& context, Launcher& launcher,
                                const KernelFunction& zero, Precision precision,
                                std::span<const size_t> bytes) {
  if (buffers_.size() < bytes.size()) {
    buffers_.resize(bytes.size());
    bytes_.resize(bytes.size());
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] <= bytes_[i]) continue;
    buffers_[i] = cl::Buffer();  // frees the old one first: never both at once
    bytes_[i] = 0;
    cl_int error = CL_SUCCESS;
    buffers_[i] = cl::Buffer(context.handle, CL_MEM_READ_WRITE, bytes[i], nullptr, &error);
    RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for a tile's tensors"));
    bytes_[i] = bytes[i];
    RETURN_IF_ERROR(EnqueueZero(launcher, zero, buffers_[i], bytes[i] / StorageBytes(precision)));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::opencl
