#include "server/lifecycle/idle_trim.h"

#include "engine/base/clock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

class IdleTrimTest : public ::testing::Test {
 protected:
  // How often it has trimmed after one more look.
  int Look() {
    idle_trim_.Look();
    return trims_;
  }

  AdmissionController admission_{Limits(), int64_t{1} << 30, Clock::Real()};
  int trims_ = 0;
  IdleTrim idle_trim_{admission_, [this] { ++trims_; }};
};

TEST_F(IdleTrimTest, LeavesAServerAloneThatHasHadNoCall) {
  EXPECT_EQ(Look(), 0);
  EXPECT_EQ(Look(), 0);
}

TEST_F(IdleTrimTest, TrimsOnceAfterTheLastCall) {
  for (int i = 1; i <= 3; ++i) {
    {
      const auto first = admission_.AdmitCall(), second = admission_.AdmitCall();
      ASSERT_TRUE(first.ok() && second.ok());
      EXPECT_EQ(Look(), i - 1);
    }
    EXPECT_EQ(Look(), i);
    EXPECT_EQ(Look(), i);
  }
}

TEST_F(IdleTrimTest, NoticesCallsThatBeganAndEndedBetweenTwoLooks) {
  ASSERT_TRUE(admission_.AdmitCall().ok());
  EXPECT_EQ(Look(), 1);
}

TEST_F(IdleTrimTest, WaitsForMemoryThatOutlastsItsCall) {
  {
    auto call = admission_.AdmitCall();
    ASSERT_TRUE(call.ok());
    const auto reservation = admission_.Reserve({.memory_bytes = 100});
    ASSERT_TRUE(reservation.ok());
    call->Release();
    EXPECT_EQ(Look(), 0);
  }
  EXPECT_EQ(Look(), 1);
}

}  // namespace
}  // namespace upscaled::server
