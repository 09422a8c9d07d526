#include "server/telemetry/gpu_probe.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/base/thread_pool.h"
#include "server/base/timer.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

void ExpectNothing(const GpuReading& reading) {
  EXPECT_EQ(reading.memory_used_bytes, std::nullopt);
  EXPECT_EQ(reading.memory_bytes, std::nullopt);
  EXPECT_EQ(reading.utilization, std::nullopt);
}

// The driver is asked once, when the test allows it, and gives no answer from then on.
class GpuProbeTest : public ::testing::Test {
 protected:
  GpuProbe Probe(const std::vector<std::string>& devices, const std::string& cuda = FAKE_CUDA,
                 const std::string& nvml = FAKE_NVML) {
    return GpuProbe(timer_, devices, clock_, cuda, nvml);
  }
  void AskDriver() {
    allowed_.Notify();
    test::Await([this] { return asked_.load(); });
  }

  FakeClock clock_;
  absl::Notification allowed_;
  std::atomic<bool> asked_ = false;
  ThreadPool helpers_{1};
  Timer timer_{clock_, [this](const std::function<void()>& job) {
                 return !asked_ && helpers_.Run([this, job] {
                   allowed_.WaitForNotification();
                   job();
                   asked_ = true;
                 });
               }};
};

TEST_F(GpuProbeTest, ReadsEachGpuByItsPlaceOnTheBus) {
  const GpuProbe probe = Probe({"cuda:1", "cpu", "cuda:0"});
  AskDriver();
  const GpuReading first = probe.Read("cuda:0");
  EXPECT_EQ(first.memory_used_bytes, 3 * kGiB);
  EXPECT_EQ(first.memory_bytes, 80 * kGiB);
  EXPECT_EQ(first.utilization, 0.45);
  const GpuReading second = probe.Read("cuda:1");
  EXPECT_EQ(second.memory_used_bytes, 5 * kGiB);
  EXPECT_EQ(second.memory_bytes, 40 * kGiB);
  EXPECT_EQ(second.utilization, std::nullopt);
}

TEST_F(GpuProbeTest, WaitsForNoDriverAndForgetsWhatIsOld) {
  const GpuProbe probe = Probe({"cuda:0"});
  ExpectNothing(probe.Read("cuda:0"));
  AskDriver();
  clock_.Advance(GpuProbe::kMaxAge);
  EXPECT_EQ(probe.Read("cuda:0").utilization, 0.45);
  clock_.Advance(absl::Seconds(1));
  ExpectNothing(probe.Read("cuda:0"));
}

TEST_F(GpuProbeTest, TellsNothingOfOtherDevices) {
  const GpuProbe probe = Probe({"cpu", "opencl:0", "cuda", "cuda:", "cuda:x", "cuda:9", "cuda:0"});
  AskDriver();
  for (const char* device :
       {"cpu", "opencl:0", "cuda", "cuda:", "cuda:x", "cuda:9", "cuda:1", ""}) {
    SCOPED_TRACE(device);
    ExpectNothing(probe.Read(device));
  }
  EXPECT_EQ(probe.Read("cuda:0").utilization, 0.45);
}

class GpuProbeWithoutTest : public GpuProbeTest,
                            public ::testing::WithParamInterface<std::array<const char*, 2>> {};

TEST_P(GpuProbeWithoutTest, NeedsBothLibraries) {
  const auto [cuda, nvml] = GetParam();
  const GpuProbe probe = Probe({"cuda:0"}, cuda, nvml);
  AskDriver();
  ExpectNothing(probe.Read("cuda:0"));
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuProbeWithoutTest,
    ::testing::Values(std::array<const char*, 2>{"/nowhere/libcuda.so.1", FAKE_NVML},
                      std::array<const char*, 2>{FAKE_CUDA, "/nowhere/libnvidia-ml.so.1"},
                      std::array<const char*, 2>{FAKE_CUDA, FAKE_CUDA}));

}  // namespace
}  // namespace upscaled::server
