#include "engine/backends/cuda/context.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/base/status_macros.h"

namespace upscaled::cuda {

namespace {

// Starts the runtime's context, or tells what spoiled it.
cudaError_t Start(int device) {
  const cudaError_t error = cudaSetDevice(device);
  return error == cudaSuccess ? cudaFree(nullptr) : error;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Context>> Context::Create(const Device& device) {
  cudaError_t error = Start(device.index);
  if (LosesContext(error)) {
    RETURN_IF_ERROR(ToStatus(cudaDeviceReset(), "cudaDeviceReset", device.name));
    error = Start(device.index);
  }
  RETURN_IF_ERROR(ToStatus(error, "start of a context", device.name));
  return std::make_shared<Context>(device);
}

absl::Status Context::Enter() {
  {
    absl::MutexLock lock(&mutex_);
    if (!lost_.ok()) return lost_;
  }
  return Check(cudaSetDevice(device_.index), "cudaSetDevice");
}

absl::Status Context::Check(cudaError_t error, std::string_view call) {
  absl::Status status = ToStatus(error, call, device_.name);
  if (LosesContext(error)) {
    absl::MutexLock lock(&mutex_);
    lost_.Update(status);
  } else if (error != cudaSuccess) {
    (void)cudaGetLastError();  // or the next check of a launch would report it once more
  }
  return status;
}

}  // namespace upscaled::cuda
