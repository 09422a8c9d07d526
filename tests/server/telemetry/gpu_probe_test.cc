#include "server/telemetry/gpu_probe.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

GpuProbe FakeProbe(const std::vector<std::string>& devices) {
  return GpuProbe(devices, FAKE_CUDA, FAKE_NVML);
}

void ExpectNothing(const GpuReading& reading) {
  EXPECT_EQ(reading.memory_used_bytes, std::nullopt);
  EXPECT_EQ(reading.memory_bytes, std::nullopt);
  EXPECT_EQ(reading.utilization, std::nullopt);
}

TEST(GpuProbeTest, ReadsEachGpuByItsPlaceOnTheBus) {
  const GpuProbe probe = FakeProbe({"cuda:1", "cpu", "cuda:0"});
  const GpuReading first = probe.Read("cuda:0");
  EXPECT_EQ(first.memory_used_bytes, 3 * kGiB);
  EXPECT_EQ(first.memory_bytes, 80 * kGiB);
  EXPECT_EQ(first.utilization, 0.45);
  const GpuReading second = probe.Read("cuda:1");
  EXPECT_EQ(second.memory_used_bytes, 5 * kGiB);
  EXPECT_EQ(second.memory_bytes, 40 * kGiB);
  EXPECT_EQ(second.utilization, std::nullopt);
}

TEST(GpuProbeTest, TellsNothingOfOtherDevices) {
  const GpuProbe probe =
      FakeProbe({"cpu", "opencl:0", "cuda", "cuda:", "cuda:x", "cuda:9", "cuda:0"});
  for (const char* device :
       {"cpu", "opencl:0", "cuda", "cuda:", "cuda:x", "cuda:9", "cuda:1", ""}) {
    SCOPED_TRACE(device);
    ExpectNothing(probe.Read(device));
  }
}

TEST(GpuProbeTest, NeedsBothLibraries) {
  ExpectNothing(GpuProbe({"cuda:0"}, "/nowhere/libcuda.so.1", FAKE_NVML).Read("cuda:0"));
  ExpectNothing(GpuProbe({"cuda:0"}, FAKE_CUDA, "/nowhere/libnvidia-ml.so.1").Read("cuda:0"));
  ExpectNothing(GpuProbe({"cuda:0"}, FAKE_CUDA, FAKE_CUDA).Read("cuda:0"));
}

}  // namespace
}  // namespace upscaled::server
