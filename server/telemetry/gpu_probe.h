// Readings of the GPUs behind CUDA devices, as NVIDIA's driver gives them, for metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace upscaled::server {

// All processes together; without what the driver does not tell.
struct GpuReading {
  std::optional<int64_t> memory_used_bytes, memory_bytes;
  std::optional<double> utilization;  // 0 to 1: the share of time in which a kernel ran
};

// Reads through NVML, which it loads at run time. Thread safe.
class GpuProbe {
 public:
  // `devices` are names of the server's devices: those named "cuda:N" are read. Loads nothing
  // without any. The libraries are those of NVIDIA's driver, unless a test has others.
  explicit GpuProbe(const std::vector<std::string>& devices,
                    const std::string& cuda_library = "libcuda.so.1",
                    const std::string& nvml_library = "libnvidia-ml.so.1");
  ~GpuProbe();

  // Empty for other devices, and while the driver does not answer. Takes about a millisecond.
  GpuReading Read(std::string_view device) const;

 private:
  struct Nvml;
  std::unique_ptr<const Nvml> nvml_;  // null: there is no GPU to read
};

}  // namespace upscaled::server
