#include "engine/backends/cuda/context.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/backends/cuda/kernels/device_code.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::cuda {

namespace {

// The devices with a lost context, until the process has another, one bit per device. It is the
// process's, as the runtime's contexts are: a driver refuses a context without a reason.
std::atomic<uint64_t>& LostDevices() {
  static std::atomic<uint64_t> devices = 0;
  return devices;
}

// The devices without an answer, one bit per device: this process calls their drivers no more.
std::atomic<uint64_t>& HungDevices() {
  static std::atomic<uint64_t> devices = 0;
  return devices;
}

uint64_t BitOf(const Device& device) { return uint64_t{1} << (device.index % 64); }

// Starts the runtime's context, or returns the error in it, perhaps only after the wait.
cudaError_t Start(int device) {
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaFree(nullptr);
  return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

// Ends the device's spoiled context. Both calls may return its error once more.
void Reset(int device) {
  int current = -1;
  (void)cudaGetDevice(&current);
  if (current == device) (void)cudaDeviceReset();  // never another device, which may be in use
  (void)cudaGetLastError();
}

constexpr std::string_view kUntilRestart =
    "the device cannot be used until the server is restarted";

// Multiply-adds per second below the speed of every device, even in shared use: the slowest of
// compute capability 7.5 does a hundred times as many.
constexpr double kSlowestRate = 1e10;

// Waits are polled: at once, then ever more rarely, so no wait is prolonged by more than a part in
// 32. A longer step than kLongestStep counts as one: the process was stopped meanwhile.
constexpr absl::Duration kBusyTime = absl::Microseconds(100);
constexpr absl::Duration kLongestSleep = absl::Milliseconds(5);
constexpr absl::Duration kLongestStep = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::shared_ptr<Context>> Context::Create(const Device& device,
                                                         const BackendOptions& options) {
  if ((HungDevices() & BitOf(device)) != 0) {
    return absl::UnavailableError(
        absl::StrCat(device.name, ": it did not answer; ", ToAbsl(kUntilRestart)));
  }
  cudaError_t error = Start(device.index);
  if (LosesContext(error)) {
    Reset(device.index);
    error = Start(device.index);
  }
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    const absl::Status status = ToStatus(error, "start of a context", device.name);
    if (!absl::IsUnavailable(status) || (LostDevices() & BitOf(device)) == 0) return status;
    return absl::UnavailableError(absl::StrCat(
        status.message(),
        "; this process lost its context, and no other can be had: ", ToAbsl(kUntilRestart)));
  }
  LostDevices() &= ~BitOf(device);
  auto context = std::make_shared<Context>(device, options);
  RETURN_IF_ERROR(context->Check(FindDeviceCode(), "the kernels' code"));
  return context;
}

absl::Status Context::Enter() {
  RETURN_IF_ERROR(lost());
  (void)cudaGetLastError();  // drops that of a context that this thread has seen lost
  return Check(cudaSetDevice(device_.index), "cudaSetDevice");
}

absl::Status Context::Check(cudaError_t error, std::string_view call) {
  absl::Status status = ToStatus(error, call, device_.name);
  if (LosesContext(error)) {
    Lose(status);
  } else if (error != cudaSuccess) {
    (void)cudaGetLastError();  // or the next check of a launch would report it once more
  }
  return status;
}

absl::Status Context::Await(cudaEvent_t event, int64_t cost, std::string_view work) {
  using Clock = std::chrono::steady_clock;
  const absl::Duration limit =
      answer_limit_ + absl::Seconds(static_cast<double>(cost) / kSlowestRate);
  absl::Duration waited;
  for (Clock::time_point last = Clock::now();;) {
    RETURN_IF_ERROR(lost());
    const cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) return Check(error, work);
    (void)cudaGetLastError();
    if (waited >= limit) {
      GiveUp(absl::StrCat(ToAbsl(work), " has not ended after ",
                          absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1)))));
      return lost();
    }
    if (waited < kBusyTime) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(std::min(waited / 32, kLongestSleep)));
    }
    const Clock::time_point now = Clock::now();
    waited += std::min(absl::FromChrono(now - std::exchange(last, now)), kLongestStep);
  }
}

void Context::GiveUp(std::string_view why) {
  HungDevices() |= BitOf(device_);
  Lose(absl::DeadlineExceededError(
      absl::StrCat(device_.name, ": ", ToAbsl(why), ": ", ToAbsl(kUntilRestart))));
}

void Context::Lose(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (lost_.ok()) LostDevices() |= BitOf(device_);
  lost_.Update(status);
}

}  // namespace upscaled::cuda
