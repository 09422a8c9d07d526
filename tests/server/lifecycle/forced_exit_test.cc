#include "server/lifecycle/forced_exit.h"

#include <unistd.h>

#include <functional>
#include <system_error>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

int64_t Hang() {
  absl::Notification never;
  never.WaitForNotification();
  return 0;
}

class ForcedExitDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ForcedExitDeathTest, SaysWhatIsLeftThoughCountsHang) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        ForcedExit end(logger);
        end.Arm(absl::Milliseconds(1), {{"calls", [] { return int64_t{3}; }}, {"tiles", &Hang}});
        Hang();
      },
      ::testing::ExitedWithCode(ForcedExit::kExitCode),
      "error the drain hangs; the process ends with work left calls=3 tiles=unknown threads=");
}

TEST_F(ForcedExitDeathTest, TheTimeGoesOnAfterItsEnd) {
  EXPECT_EXIT(
      {
        {
          Logger logger(LogFormat::kText, LogLevel::kInfo);
          ForcedExit end(logger);
          end.Arm(absl::Milliseconds(100), {{"calls", &Hang}});
          end.ForgetLeftovers();
        }
        Hang();
      },
      ::testing::ExitedWithCode(ForcedExit::kExitCode), "the exit hangs and is cut short");
}

TEST_F(ForcedExitDeathTest, CanBeMoved) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        ForcedExit end(logger);
        end.Arm(absl::Hours(1), {});
        end.Arm(absl::Milliseconds(1), {});
        Hang();
      },
      ::testing::ExitedWithCode(ForcedExit::kExitCode), "the drain hangs");
}

TEST_F(ForcedExitDeathTest, MayHaveAnExitCodeOfItsOwn) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        ForcedExit end(logger);
        end.Arm(absl::Milliseconds(1), {}, 42);
        Hang();
      },
      ::testing::ExitedWithCode(42), "exit_code=42");
}

TEST_F(ForcedExitDeathTest, NeedsNoThreadToSpare) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        ForcedExit end(logger, [](const std::function<void()>&) {
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        });
        end.Arm(absl::Hours(1), {});
        end.Arm(absl::Milliseconds(1), {}, 42);
        Hang();
      },
      ::testing::ExitedWithCode(42), "");
}

TEST(ForcedExitTest, NeverComesUnlessItIsArmed) {
  Logger logger(LogFormat::kText, LogLevel::kInfo);
  ForcedExit unarmed(logger);
  ForcedExit endless(logger);
  endless.Arm(absl::InfiniteDuration(), {});
}

}  // namespace
}  // namespace upscaled::server
