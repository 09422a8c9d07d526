#include "server/devices/device_executable.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/devices/named_backend.h"

namespace upscaled::server {
namespace {

using test::HaloExecutable;
using test::NamedBackend;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<Device> MakeDevice(const std::string& name, int slot, int streams = 1) {
  return std::make_shared<Device>(std::make_unique<NamedBackend>(name, "", streams), slot, slot);
}

class DeviceExecutableTest : public ::testing::Test {
 protected:
  const std::shared_ptr<Device> gpu_ = MakeDevice("gpu", 0, 2);
  const std::shared_ptr<Device> cpu_ = MakeDevice("cpu", 1, 3);
  const std::shared_ptr<Device> other_ = MakeDevice("other", 2);
};

TEST_F(DeviceExecutableTest, AsksForWhatTheMostDemandingNeeds) {
  const DeviceExecutable both(
      {{gpu_, std::make_shared<HaloExecutable>(3)}, {cpu_, std::make_shared<HaloExecutable>(7)}});
  EXPECT_EQ(both.Plan({10, 20, 5, 6}, {100, 100}).input, (Rect{3, 13, 19, 20}));
  EXPECT_EQ(both.device_class(), 0);
  // Five streams, for tiles either way up.
  EXPECT_EQ(both.ScratchBytes({3, 40}), 5u * (10 * 40 + 3));
  EXPECT_NE(both.On(*gpu_), nullptr);
  EXPECT_NE(both.On(*cpu_), both.On(*gpu_));
  EXPECT_EQ(both.On(*other_), nullptr);
}

TEST_F(DeviceExecutableTest, ATileThatMovesIsPlannedAgain) {
  const auto on_gpu = std::make_shared<HaloExecutable>(3);
  const auto on_cpu = std::make_shared<HaloExecutable>(7);
  const DeviceExecutable both({{gpu_, on_gpu}, {cpu_, on_cpu}});
  TileTask task;
  task.plan = std::make_shared<const TilePlan>(both.Plan({10, 20, 5, 6}, {100, 100}));
  EXPECT_EQ(both.TaskFor(*gpu_, task).plan, task.plan);
  const TileTask moved = both.TaskFor(*cpu_, task);
  EXPECT_EQ(moved.plan->maker, on_cpu.get());
  EXPECT_EQ(moved.plan->tile, task.plan->tile);
  EXPECT_TRUE(task.plan->input.Contains(moved.plan->input));
}

TEST_F(DeviceExecutableTest, ATilesActivationCacheIsTheFirstDevices) {
  const auto on_gpu = std::make_shared<HaloExecutable>(3);
  const auto on_cpu = std::make_shared<HaloExecutable>(7);
  const DeviceExecutable both({{gpu_, on_gpu}, {cpu_, on_cpu}});
  const std::unique_ptr<ActivationCache> cache = both.CreateActivationCache();
  EXPECT_FALSE(cache->Begin(on_cpu.get(), 0, 0)) << "the other one does without";
  EXPECT_TRUE(cache->Begin(on_gpu.get(), 0, 0));
}

class LoadOnDevicesTest : public DeviceExecutableTest {
 protected:
  void SetUp() override {
    const ModelCard& card = **repository_.Find("general-2x");
    passes_ = {{&card, &card.variants.front()}, {&card, &card.variants.front()}};
  }
  static void Refuse(Device& device, absl::Status why) {
    static_cast<NamedBackend&>(device.backend()).refusal = std::move(why);
  }
  absl::StatusOr<DeviceExecutables> Load() {
    return LoadOnDevices(
        {gpu_, cpu_}, passes_, Precision::kExact,
        /*cancellation=*/nullptr,
        [this](const Device& device, const absl::Status&) { faulty_.push_back(device.name()); });
  }

  const ModelRepository repository_ = *ModelRepository::Open({"engine/model/bundled"});
  std::vector<ModelPass> passes_;
  std::vector<std::string> faulty_;
};

TEST_F(LoadOnDevicesTest, LoadsEveryVariantOnEveryDevice) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 2u);
  for (const auto& executable : *loaded) EXPECT_EQ(executable->parts().size(), 2u);
}

TEST_F(LoadOnDevicesTest, LeavesOutADeviceThatCannotRunIt) {
  Refuse(*gpu_, absl::UnimplementedError("no such layer"));
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& executable : *loaded) {
    ASSERT_EQ(executable->parts().size(), 1u);
    EXPECT_EQ(executable->parts().front().device, cpu_);
  }
  EXPECT_THAT(faulty_, IsEmpty());
}

TEST_F(LoadOnDevicesTest, TellsOfDevicesThatAreGone) {
  Refuse(*gpu_, absl::UnavailableError("context lost"));
  EXPECT_TRUE(Load().ok());
  EXPECT_THAT(faulty_, ElementsAre("gpu"));
}

TEST_F(LoadOnDevicesTest, FailsWhereNoDeviceIsLeft) {
  Refuse(*gpu_, absl::UnimplementedError("no such layer"));
  Refuse(*cpu_, absl::UnimplementedError("nor here"));
  EXPECT_EQ(Load().status(), absl::UnimplementedError("no such layer"));
}

}  // namespace
}  // namespace upscaled::server
