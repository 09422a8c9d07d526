#include "server/devices/device.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/build_id.h"
#include "tests/server/devices/named_backend.h"

namespace upscaled::server {
namespace {

using test::NamedBackend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<DeviceList> Make(std::vector<std::pair<std::string, std::string>> names_and_makes) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const auto& [name, make] : names_and_makes) {
    backends.push_back(std::make_unique<NamedBackend>(name, make));
  }
  return MakeDevices(std::move(backends));
}

TEST(DeviceTest, DevicesOfOneBackendAndMakeAreOfOneClass) {
  const auto devices = Make({{"cuda:0", "H200"},
                             {"opencl:0.0", "H200"},
                             {"cuda:1", "H100"},
                             {"cuda:2", "H200"},
                             {"cpu", "Xeon"}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  std::vector<int> classes, slots;
  for (const auto& device : *devices) {
    classes.push_back(device->device_class());
    slots.push_back(device->slot());
  }
  EXPECT_THAT(classes, ElementsAre(0, 1, 2, 0, 3));
  EXPECT_THAT(slots, ElementsAre(0, 1, 2, 3, 4));
}

// Results of equal descriptions differ if other code computes them.
TEST(DeviceTest, ItsArithmeticTellsWhoseCodeComputes) {
  const auto devices = Make({{"cuda:0", "H200"}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_NE(BuildId(), "");
  EXPECT_EQ(devices->front()->arithmetic(), "H200, build " + BuildId());
}

TEST(DeviceTest, ADeviceIsThereOnce) {
  const absl::Status status = Make({{"cpu", ""}, {"reference", ""}, {"cpu", ""}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--device names cpu more than once"));
}

TEST(DeviceTest, ErrorsOfTheTaskAndOfMemoryAreNotTheDevices) {
  EXPECT_FALSE(IsDeviceFault(absl::OkStatus()));
  EXPECT_FALSE(IsDeviceFault(absl::InvalidArgumentError("")));
  EXPECT_FALSE(IsDeviceFault(absl::UnimplementedError("")));
  EXPECT_FALSE(IsDeviceFault(absl::ResourceExhaustedError("")));
  EXPECT_TRUE(IsDeviceFault(absl::InternalError("")));
  EXPECT_TRUE(IsDeviceFault(absl::UnavailableError("")));
  EXPECT_TRUE(IsDeviceFault(absl::DataLossError("")));
}

TEST(DeviceTest, MemoryIsOfAllStreamsOfTheFirstDeviceThatTells) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<NamedBackend>("gpu"));
  auto cpu = std::make_unique<NamedBackend>("cpu", "", /*streams=*/4);
  NamedBackend& backend = *cpu;
  backends.push_back(std::move(cpu));
  const DeviceList devices = *MakeDevices(std::move(backends));
  EXPECT_EQ(PlanMemory(devices, {}, Precision::kExact), 0);
  backend.need = MemoryNeed{.weight_bytes = 1000, .workspace_bytes = 10};
  EXPECT_EQ(PlanMemory(devices, {}, Precision::kExact), 1040);
}

TEST(DeviceTest, OneDeviceWithAPrecisionIsEnough) {
  const DeviceList devices = *Make({{"cpu", ""}, {"gpu", ""}});
  const auto refuse = [&](size_t i, const char* why) {
    static_cast<NamedBackend&>(devices[i]->backend()).refusal = absl::UnimplementedError(why);
  };
  EXPECT_TRUE(TryPrecision(devices, Network(), Precision::kFast).ok());
  refuse(0, "no fp16 on cpu");
  EXPECT_TRUE(TryPrecision(devices, Network(), Precision::kFast).ok());
  EXPECT_TRUE(HasPrecision(devices, Precision::kFast));
  refuse(1, "no fp16 on gpu");
  EXPECT_FALSE(HasPrecision(devices, Precision::kFast));
  EXPECT_EQ(TryPrecision(devices, Network(), Precision::kFast),
            absl::UnimplementedError("no fp16 on cpu"));
  EXPECT_TRUE(absl::IsUnavailable(TryPrecision({}, Network(), Precision::kFast)));
}

}  // namespace
}  // namespace upscaled::server
