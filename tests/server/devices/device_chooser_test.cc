#include "server/devices/device_chooser.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/repository.h"
#include "server/base/error.h"
#include "tests/server/devices/named_backend.h"

namespace upscaled::server {
namespace {

using test::NamedBackend;
using ::testing::IsEmpty;

// So many pixels a second.
ThroughputMeter Speed(int64_t pixels) {
  ThroughputMeter speed;
  speed.Record(absl::UnixEpoch(), false, 0);
  speed.Record(absl::UnixEpoch() + absl::Seconds(1), true, pixels);
  return speed;
}

class DeviceChooserTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Device> MakeDevice(const std::string& name, int slot) {
    return std::make_shared<Device>(std::make_unique<NamedBackend>(name), slot, slot);
  }
  static void Refuse(Device& device, absl::Status refusal) {
    static_cast<NamedBackend&>(device.backend()).refusal = std::move(refusal);
  }
  absl::StatusOr<DeviceChooser::Choice> Load(int64_t pixels,
                                             Precision precision = Precision::kExact) {
    const ModelCard& card = **repository_.Find("general-2x");
    const ModelPass pass{&card, &card.variants.front()};
    return chooser_.Load({&pass, 1}, precision, pixels);
  }
  // The device class for a request.
  int ClassFor(int64_t pixels) {
    const auto choice = Load(pixels);
    EXPECT_TRUE(choice.ok()) << choice.status();
    return choice.ok() ? choice->executables.front()->device_class() : -1;
  }

  const ModelRepository repository_ = *ModelRepository::Open({"engine/model/bundled"});
  const DeviceList devices_ = {MakeDevice("gpu", 0), MakeDevice("cpu", 1)};
  DeviceQuarantine quarantine_{devices_};
  std::vector<DeviceClassWork> work_{{.speed = Speed(1000)}, {.speed = Speed(100)}};
  DeviceChooser chooser_{quarantine_, [this] { return work_; }};
};

TEST_F(DeviceChooserTest, CountsWhatIsQueuedAndWhatIsBound) {
  EXPECT_EQ(ClassFor(1000), 0);
  work_[0].queued_cost = 10'000;
  EXPECT_EQ(ClassFor(1000), 1) << "11 s there, 10 s here";
  auto here = Load(1000);
  EXPECT_EQ(ClassFor(1000), 0) << "11 s there, 20 s here";
  here->binding.MoveTo(0);
  EXPECT_EQ(ClassFor(1000), 1) << "12 s there, 10 s here";
  work_[1].queued_cost = 150;
  EXPECT_EQ(ClassFor(1000), 1) << "12 s there, 11.5 s here";
  here->binding.Release();
  EXPECT_EQ(ClassFor(1000), 0) << "11 s there, 11.5 s here";
}

TEST_F(DeviceChooserTest, ABindingCountsOnceHoweverItMoves) {
  {
    auto first = Load(10);
    work_[0].queued_cost = 9'000;
    DeviceChooser::Binding second = std::move(first->binding), third;
    third = std::move(second);
    EXPECT_EQ(ClassFor(1000), 1) << "10.01 s there, 10 s here";
  }
  EXPECT_EQ(ClassFor(1000), 0) << "10 s each: the first";
}

TEST_F(DeviceChooserTest, OneRequestFindsOutHowFastADeviceClassIs) {
  work_ = {{.speed = Speed(1000)}, {}};
  auto scout = Load(1000);
  EXPECT_EQ(scout->executables.front()->device_class(), 1);
  EXPECT_EQ(ClassFor(1000), 0) << "others do not wait for that";
  scout->binding.Release();
  work_[1].idle = false;
  EXPECT_EQ(ClassFor(1000), 0);
}

TEST_F(DeviceChooserTest, ADeviceThatFailsToLoadGoesIntoQuarantine) {
  Refuse(*devices_[0], absl::UnavailableError("context lost"));
  const auto choice = Load(1000);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->executables.front()->parts().size(), 1u);
  EXPECT_EQ(choice->executables.front()->device_class(), 1);
  EXPECT_EQ(quarantine_.InSlot(0), nullptr);

  Refuse(*devices_[1], absl::DeadlineExceededError("no answer"));
  const absl::Status none = Load(1000, Precision::kFast).status();  // which is not loaded yet
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(none), ErrorReason::kDeviceFailure);
  EXPECT_THAT(quarantine_.working(), IsEmpty());
  EXPECT_EQ(Load(1000).status(), none) << "without trying";
}

TEST_F(DeviceChooserTest, AnErrorOfTheModelIsNotTheDevices) {
  for (const auto& device : devices_) Refuse(*device, absl::UnimplementedError("no fp16"));
  EXPECT_EQ(Load(1000).status(), absl::UnimplementedError("no fp16"));
  EXPECT_EQ(quarantine_.working(), devices_);
  work_[0].queued_cost = 9'001;
  for (const auto& device : devices_) Refuse(*device, absl::OkStatus());
  EXPECT_EQ(ClassFor(1000), 1) << "what could not be loaded is not bound";
}

TEST_F(DeviceChooserTest, NoNetworkNeedsNoDevice) {
  for (const auto& device : devices_) quarantine_.Report(*device, absl::InternalError("lost"));
  const auto choice = chooser_.Load({}, Precision::kExact, 1000);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_THAT(choice->executables, IsEmpty());
}

}  // namespace
}  // namespace upscaled::server
