#include "server/batching/stream_speeds.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/batching/gated_backend.h"

namespace upscaled::server {
namespace {

class StreamSpeedsTest : public ::testing::Test {
 protected:
  void Record(const DeviceExecutable& network, absl::Duration busy, int64_t cost) {
    speeds_.Record(network.parts().front().executable, busy, cost, now_);
  }

  GatedDevice gated_{1};
  const std::shared_ptr<const DeviceExecutable> fast_ = NetworkOn({gated_.device});
  const std::shared_ptr<const DeviceExecutable> slow_ = NetworkOn({gated_.device});
  const std::shared_ptr<const DeviceExecutable> new_ = NetworkOn({gated_.device});
  absl::Time now_ = absl::FromUnixSeconds(1000);
  StreamSpeeds speeds_;
};

TEST_F(StreamSpeedsTest, EachNetworkHasItsOwnAndANewOneThatOfAll) {
  EXPECT_EQ(speeds_.Of(*new_, now_), 0);
  Record(*fast_, absl::Seconds(1), 900);
  Record(*slow_, absl::Seconds(1), 100);
  EXPECT_NEAR(speeds_.Of(*fast_, now_), 900, 1);
  EXPECT_NEAR(speeds_.Of(*slow_, now_), 100, 1);
  EXPECT_NEAR(speeds_.Of(*new_, now_), 500, 20);
}

TEST_F(StreamSpeedsTest, ASlowTimeIsBelievedLessTheOlderItIs) {
  Record(*slow_, absl::Seconds(1), 100);
  now_ += absl::Minutes(3);
  EXPECT_EQ(speeds_.Of(*slow_, now_), 0) << "nothing ran for a minute";
  Record(*fast_, absl::Seconds(1), 900);
  EXPECT_NEAR(speeds_.Of(*slow_, now_), 300, 1) << "a third of the time";
  EXPECT_NEAR(speeds_.Of(*fast_, now_), 900, 1);
  Record(*slow_, absl::Seconds(1), 200);
  EXPECT_NEAR(speeds_.Of(*slow_, now_), 200, 1) << "measured anew";
}

// A first run may not end.
TEST_F(StreamSpeedsTest, ANewNetworkIsTakenForMuchSlowerThanOthers) {
  const auto last_of = [&](const DeviceExecutable& network) {
    return speeds_.LastOf(network.parts().front().executable);
  };
  EXPECT_EQ(last_of(*new_), 0);
  Record(*fast_, absl::Seconds(1), 900);
  EXPECT_NEAR(last_of(*new_), 90, 1);
  EXPECT_NEAR(last_of(*fast_), 900, 1);
}

TEST_F(StreamSpeedsTest, AMeasurementOfAnyOfTheDevicesDoes) {
  GatedDevice other(1);
  Record(*fast_, absl::Seconds(1), 900);
  std::vector<DeviceExecutable::Part> parts = {{other.device, std::make_shared<FakeExecutable>()},
                                               fast_->parts().front()};
  EXPECT_NEAR(speeds_.Of(DeviceExecutable(std::move(parts)), now_), 900, 1);
}

}  // namespace
}  // namespace upscaled::server
