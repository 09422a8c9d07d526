#include "engine/backends/cuda/context.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/backends/cuda/kernels/device_code.h"
#include "engine/base/status_macros.h"

namespace upscaled::cuda {

namespace {

// The devices whose context this process had and lost, until it has another, a bit each: as the
// runtime's contexts it is the process's, and a driver that refuses one does not tell why.
std::atomic<uint64_t>& LostDevices() {
  static std::atomic<uint64_t> devices = 0;
  return devices;
}

uint64_t BitOf(const Device& device) { return uint64_t{1} << (device.index % 64); }

// Starts the runtime's context, or tells what spoiled it, which may show in the wait alone.
cudaError_t Start(int device) {
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaFree(nullptr);
  return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

// Ends the device's spoiled context. Both calls may tell once more what spoiled it.
void Reset(int device) {
  int current = -1;
  (void)cudaGetDevice(&current);
  if (current == device) (void)cudaDeviceReset();  // never another device, which may be in use
  (void)cudaGetLastError();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Context>> Context::Create(const Device& device) {
  cudaError_t error = Start(device.index);
  if (LosesContext(error)) {
    Reset(device.index);
    error = Start(device.index);
  }
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    const absl::Status status = ToStatus(error, "start of a context", device.name);
    if (!absl::IsUnavailable(status) || (LostDevices() & BitOf(device)) == 0) return status;
    return absl::UnavailableError(
        absl::StrCat(status.message(), "; this process lost its context, and no other can be had: ",
                     "the device cannot be used until the server is restarted"));
  }
  LostDevices() &= ~BitOf(device);
  auto context = std::make_shared<Context>(device);
  RETURN_IF_ERROR(context->Check(FindDeviceCode(), "the kernels' code"));
  return context;
}

absl::Status Context::Enter() {
  {
    absl::MutexLock lock(&mutex_);
    if (!lost_.ok()) return lost_;
  }
  (void)cudaGetLastError();  // drops that of a context that this thread has seen lost
  return Check(cudaSetDevice(device_.index), "cudaSetDevice");
}

absl::Status Context::Check(cudaError_t error, std::string_view call) {
  absl::Status status = ToStatus(error, call, device_.name);
  if (LosesContext(error)) {
    absl::MutexLock lock(&mutex_);
    if (lost_.ok()) LostDevices() |= BitOf(device_);
    lost_.Update(status);
  } else if (error != cudaSuccess) {
    (void)cudaGetLastError();  // or the next check of a launch would report it once more
  }
  return status;
}

}  // namespace upscaled::cuda
