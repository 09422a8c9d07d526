#include "client/cli/hard_end.h"

#include <signal.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupt.h"
#include "gtest/gtest.h"
#include "tests/support/await.h"

namespace upscaled::client {
namespace {

using ::testing::ExitedWithCode;

constexpr absl::Duration kHang = absl::Minutes(1);
constexpr int kToldToStop = 7;

class HardEndDeathTest : public ::testing::Test {
 protected:
  HardEndDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(HardEndDeathTest, EndsACallThatHangs) {
  EXPECT_EXIT(
      {
        const HardEnd end(absl::Milliseconds(1), absl::Milliseconds(1));
        absl::SleepFor(kHang);
      },
      ExitedWithCode(kExitRpcFailed), "went on after its end");
}

TEST_F(HardEndDeathTest, LeavesACallInTimeAlone) {
  { const HardEnd end(absl::Hours(1)); }  // Hangs when it waits.
  { const HardEnd end(absl::InfiniteDuration()); }
}

TEST_F(HardEndDeathTest, ASignalIsARequestToStopFirst) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt(absl::Hours(1));
        kill(getpid(), SIGTERM);
        test::Await([&] { return interrupt.token().stop_requested(); });
        _exit(kToldToStop);
      },
      ExitedWithCode(kToldToStop), "");
}

TEST_F(HardEndDeathTest, ASignalEndsWhatDoesNotStop) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt(absl::Milliseconds(1));
        kill(getpid(), SIGTERM);
        absl::SleepFor(kHang);
      },
      ExitedWithCode(kExitInterrupted), "");
}

TEST_F(HardEndDeathTest, ASecondSignalEndsAtOnce) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt(absl::Hours(1));
        kill(getpid(), SIGTERM);
        test::Await([&] { return interrupt.token().stop_requested(); });
        kill(getpid(), SIGTERM);
        absl::SleepFor(kHang);
      },
      ExitedWithCode(kExitInterrupted), "");
}

}  // namespace
}  // namespace upscaled::client
