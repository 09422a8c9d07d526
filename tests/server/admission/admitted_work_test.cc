#include "server/admission/admitted_work.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace upscaled::server {
namespace {

Payer Tenant(const std::string& name, double weight = 1,
             Priority priority = Priority::kInteractive) {
  return {.tenant = name,
          .limits = std::make_shared<TenantLimits>(
              TenantLimits{.tenant = name, .priority = priority, .weight = weight})};
}

class AdmittedWorkTest : public ::testing::Test {
 protected:
  AdmittedWork::Request Add(const Payer& payer, int64_t cost) {
    AdmittedWork::Request request = work_.Add(payer);
    work_.Set(request, cost);
    return request;
  }

  AdmittedWork work_;
};

TEST_F(AdmittedWorkTest, SumsByPayer) {
  const Payer a{.address = "a"}, b{.address = "b"};
  auto first = Add(a, 10);
  Add(a, 20);
  Add(b, 5);
  EXPECT_EQ(work_.cost(), 35);
  EXPECT_EQ(work_.CostOf(a), 30);
  work_.Set(first, 4);
  EXPECT_EQ(work_.CostOf(a), 24);
  work_.Remove(first);
  EXPECT_EQ(work_.CostOf(a), 20);
  EXPECT_EQ(work_.CostOf(b), 5);
  EXPECT_EQ(work_.CostOf({.address = "c"}), 0);
}

TEST_F(AdmittedWorkTest, ARequestWaitsForItsPayersOthersAsFarAsTheyAreNoLarger) {
  const Payer a{.address = "a"};
  Add(a, 1000);
  auto small = Add(a, 3);
  const auto own = Add(a, 10);
  EXPECT_EQ(work_.ComputedUntilEnd(own), 10 + 10 + 3);
  work_.Set(small, 1);
  EXPECT_EQ(work_.ComputedUntilEnd(own), 10 + 10 + 3) << "another one may follow it";
  work_.Set(small, 0);
  EXPECT_EQ(work_.ComputedUntilEnd(own), 10 + 10);
}

TEST_F(AdmittedWorkTest, InALoadThatLastsItsPayersOthersGetAsMuchAsARequest) {
  const Payer a{.address = "a"};
  Add(a, 1000);
  const auto small = Add(a, 3);
  const auto own = Add(a, 10);
  EXPECT_EQ(work_.ComputedUntilEnd(own, /*lasts=*/true), 10 + 10 + 10);
  EXPECT_EQ(work_.ComputedUntilEnd(small, /*lasts=*/true), 3 + 3 + 3);
  Add({.address = "b"}, 1);
  EXPECT_EQ(work_.ComputedUntilEnd(own, /*lasts=*/true), 30 + 30);
}

TEST_F(AdmittedWorkTest, TheSpeedIsOfAllThatIsKnown) {
  EXPECT_EQ(work_.Speed(), 0);
  Add({.address = "a"}, 1000);
  EXPECT_EQ(work_.Speed(), 0);
  auto fast = Add({.address = "a"}, 300), slow = Add({.address = "b"}, 100);
  work_.SetSpeed(fast, 100);
  EXPECT_EQ(work_.Speed(), 100);
  work_.SetSpeed(slow, 20);
  EXPECT_EQ(work_.Speed(), 400.0 / (3 + 5));
  work_.Set(slow, 0);
  EXPECT_EQ(work_.Speed(), 100);
}

TEST_F(AdmittedWorkTest, PartsOfARequestAreOneAgainstOthersAndFollowEachOther) {
  const Payer a{.address = "a"};
  auto tiles = Add(a, 0);
  auto first = work_.AddPart(tiles), second = work_.AddPart(tiles);
  work_.Set(first, 100), work_.Set(second, 20);
  auto image = Add(a, 10);
  EXPECT_EQ(work_.ComputedUntilEnd(image), 10 + 10) << "as much of the tiles as its own";
  EXPECT_EQ(work_.ComputedUntilEnd(second), 100 + 20 + 10);
  work_.Remove(tiles), work_.Remove(first);
  EXPECT_EQ(work_.ComputedUntilEnd(second), 20 + 10);
  EXPECT_EQ(work_.cost(), 30);
  work_.Remove(second), work_.Remove(image);
  EXPECT_EQ(work_.cost(), 0);
}

TEST_F(AdmittedWorkTest, OthersGetTheirWeightsAndNoMoreThanTheyHave) {
  Add(Tenant("light"), 1000);
  Add(Tenant("heavy", 3), 1000);
  Add(Tenant("small"), 2);
  EXPECT_EQ(work_.ComputedUntil(Tenant("own"), 10), 10 + 10 + 30 + 2);
  EXPECT_EQ(work_.ComputedUntilEnd(Add(Tenant("own"), 10)), 10 + 10 + 30 + 10) << "if it lasts";
}

TEST_F(AdmittedWorkTest, BackgroundWorkWaitsForAllOther) {
  Add(Tenant("day"), 1000);
  Add(Tenant("other night", 1, Priority::kBackground), 500);
  const Payer night = Tenant("night", 1, Priority::kBackground);
  const auto late = Add(night, 10);
  EXPECT_EQ(work_.ComputedUntilEnd(late), 10 + 10 + 1000);
  EXPECT_EQ(work_.ComputedUntil(night, 4), 4 + 4 + 1000);
  EXPECT_EQ(work_.ComputedUntilEnd(Add(Tenant("day"), 10)), 20) << "and nobody waits for it";
}

}  // namespace
}  // namespace upscaled::server
