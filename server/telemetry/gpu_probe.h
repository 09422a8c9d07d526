// Readings of the GPUs behind CUDA devices, as NVIDIA's driver gives them, for metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/base/timer.h"

namespace upscaled::server {

// All processes together; without values unknown to the driver.
struct GpuReading {
  std::optional<int64_t> memory_used_bytes, memory_bytes;
  std::optional<double> utilization;  // 0 to 1: the share of time in which a kernel ran
};

// Reads through NVML, loaded at run time. A driver may take long or hang, so a task of the timer
// asks it every kInterval. Thread safe.
class GpuProbe {
 public:
  // `devices` are names of the server's devices: those named "cuda:N" are read. Loads nothing
  // without any. The libraries are those of NVIDIA's driver, unless a test has others. `timer` and
  // `clock` must outlive it.
  GpuProbe(Timer& timer, const std::vector<std::string>& devices,
           const Clock& clock = Clock::Real(), std::string cuda_library = "libcuda.so.1",
           std::string nvml_library = "libnvidia-ml.so.1");
  ~GpuProbe();

  // The latest reading. Empty for other devices, before the first one, and if the driver has not
  // answered for kMaxAge. Does not wait for the driver.
  GpuReading Read(std::string_view device) const ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr absl::Duration kInterval = absl::Seconds(5), kMaxAge = absl::Seconds(20);

 private:
  class Driver;
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  const std::map<std::string, int> ordinals_;  // of CUDA's devices, by their names
  const std::string cuda_library_, nvml_library_;
  std::unique_ptr<Driver> driver_;  // the task's; null: not loaded yet
  mutable absl::Mutex mutex_;
  std::map<std::string, GpuReading, std::less<>> readings_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::optional<Timer::Task> task_;  // nullopt: there is no such device. Last: it uses the above
};

}  // namespace upscaled::server
