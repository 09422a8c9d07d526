#include "server/calls/call_steps.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

Payer PayerWith(Priority priority) {
  auto limits = std::make_shared<TenantLimits>();
  limits->tenant = "shop";
  limits->priority = priority;
  return {.tenant = "shop", .limits = std::move(limits)};
}

TEST(ReadPriorityTest, TheLaterOfTheCallsAndTheTenantsHolds) {
  for (Payer payer : {Payer{.address = "10.0.0.1"}, PayerWith(Priority::kInteractive)}) {
    EXPECT_TRUE(ReadPriority("", payer).ok());
    EXPECT_EQ(payer.priority(), Priority::kInteractive);
    EXPECT_TRUE(ReadPriority("interactive", payer).ok());
    EXPECT_EQ(payer.priority(), Priority::kInteractive);
    EXPECT_TRUE(ReadPriority("background", payer).ok());
    EXPECT_EQ(payer.priority(), Priority::kBackground);
  }
  for (const char* const asked : {"", "background"}) {
    Payer payer = PayerWith(Priority::kBackground);
    EXPECT_TRUE(ReadPriority(asked, payer).ok());
    EXPECT_EQ(payer.priority(), Priority::kBackground) << asked;
  }
}

TEST(ReadPriorityTest, NoCallGoesBeforeItsTenant) {
  Payer payer = PayerWith(Priority::kBackground);
  const absl::Status status = ReadPriority("interactive", payer);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_EQ(ReasonOf(status), ErrorReason::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the tenant shop"));
}

TEST(ReadPriorityTest, OthersAreNamed) {
  for (const char* const asked : {"low", "Background", "background, background", " "}) {
    Payer payer;
    const absl::Status status = ReadPriority(asked, payer);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption);
    EXPECT_THAT(std::string(status.message()), HasSubstr(asked));
  }
}

}  // namespace
}  // namespace upscaled::server
