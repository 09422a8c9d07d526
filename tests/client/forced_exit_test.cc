#include "client/cli/forced_exit.h"

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

class ForcedExitDeathTest : public ::testing::Test {
 protected:
  ForcedExitDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ForcedExitDeathTest, EndsACallThatHangs) {
  EXPECT_EXIT(
      {
        const ForcedExit end(absl::Milliseconds(1), absl::Milliseconds(1));
        absl::SleepFor(kHang);
      },
      ExitedWithCode(kExitRpcFailed), "went on after its end");
}

TEST_F(ForcedExitDeathTest, LeavesACallInTimeAlone) {
  { const ForcedExit end(absl::Hours(1)); }  // Hangs when it waits.
  { const ForcedExit end(absl::InfiniteDuration()); }
}

TEST_F(ForcedExitDeathTest, ASignalIsARequestToStopFirst) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt(absl::Hours(1));
        kill(getpid(), SIGTERM);
        test::Await([&] { return interrupt.token().stop_requested(); });
        _exit(kToldToStop);
      },
      ExitedWithCode(kToldToStop), "");
}

TEST_F(ForcedExitDeathTest, ASignalEndsWhatDoesNotStop) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt(absl::Milliseconds(1));
        kill(getpid(), SIGTERM);
        absl::SleepFor(kHang);
      },
      ExitedWithCode(kExitInterrupted), "");
}

TEST_F(ForcedExitDeathTest, ASecondSignalEndsAtOnce) {
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
