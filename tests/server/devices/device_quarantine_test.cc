#include "server/devices/device_quarantine.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"
#include "tests/server/devices/named_backend.h"

namespace upscaled::server {
namespace {

using test::NamedBackend;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<Device> MakePlainDevice(const std::string& name, int slot) {
  return std::make_shared<Device>(std::make_unique<NamedBackend>(name), slot, slot);
}

class DeviceQuarantineTest : public ::testing::Test {
 protected:
  const DeviceList devices_ = {MakePlainDevice("gpu", 0), MakePlainDevice("cpu", 1)};
  std::vector<std::pair<std::string, absl::Status>> heard_;
  DeviceQuarantine quarantine_{devices_, [this](const Device& device, const absl::Status& fault) {
                                 heard_.emplace_back(device.name(), fault);
                                 quarantine_.working();  // no lock is held
                               }};
};

TEST_F(DeviceQuarantineTest, AnInstanceFailsOnceAndForGood) {
  const absl::Status lost = absl::InternalError("context lost");
  EXPECT_EQ(quarantine_.working(), devices_);
  quarantine_.Report(*devices_[0], lost);
  quarantine_.Report(*devices_[0], absl::InternalError("again"));
  EXPECT_FALSE(quarantine_.Add(*devices_[0], lost));
  EXPECT_THAT(heard_, ElementsAre(std::pair(std::string("gpu"), lost)));
  EXPECT_THAT(quarantine_.working(), ElementsAre(devices_[1]));
  EXPECT_EQ(quarantine_.InSlot(0), nullptr);
  EXPECT_EQ(quarantine_.InSlot(1), devices_[1]);

  const auto rebuilt = MakePlainDevice("gpu", 0);
  quarantine_.Restore(rebuilt);
  EXPECT_THAT(heard_, ElementsAre(std::pair(std::string("gpu"), lost),
                                  std::pair(std::string("gpu"), absl::OkStatus())));
  EXPECT_THAT(quarantine_.working(), ElementsAre(rebuilt, devices_[1]));
  quarantine_.Report(*devices_[0], lost);  // a late word of the old instance
  EXPECT_EQ(quarantine_.InSlot(0), rebuilt);
}

TEST_F(DeviceQuarantineTest, SaysWhyNoDeviceIsLeft) {
  quarantine_.Report(*devices_[1], absl::InternalError("no threads"));
  quarantine_.Report(*devices_[0], absl::InternalError("context lost"));
  EXPECT_THAT(quarantine_.working(), IsEmpty());
  const absl::Status status = quarantine_.NoDeviceError();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kDeviceFailure);
  EXPECT_EQ(status.message(),
            "no device is left to compute on; gpu failed: context lost; cpu failed: no threads");
}

}  // namespace
}  // namespace upscaled::server
