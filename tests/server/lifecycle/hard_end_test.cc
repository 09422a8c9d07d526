#include "server/lifecycle/hard_end.h"

#include <unistd.h>

#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

int64_t Hang() {
  absl::Notification never;
  never.WaitForNotification();
  return 0;
}

class HardEndDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(HardEndDeathTest, SaysWhatIsLeftThoughCountsHang) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        HardEnd end(logger);
        end.Arm(absl::Milliseconds(1), {{"calls", [] { return int64_t{3}; }}, {"tiles", &Hang}});
        Hang();
      },
      ::testing::ExitedWithCode(HardEnd::kExitCode),
      "error the drain hangs; the process ends with what is left calls=3 tiles=unknown threads=");
}

TEST_F(HardEndDeathTest, TheTimeGoesOnAfterItsEnd) {
  EXPECT_EXIT(
      {
        {
          Logger logger(LogFormat::kText, LogLevel::kInfo);
          HardEnd end(logger);
          end.Arm(absl::Milliseconds(100), {{"calls", &Hang}});
          end.ForgetLeftovers();
        }
        Hang();
      },
      ::testing::ExitedWithCode(HardEnd::kExitCode), "the exit hangs and is cut short");
}

TEST_F(HardEndDeathTest, CanBeMoved) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        HardEnd end(logger);
        end.Arm(absl::Hours(1), {});
        end.Arm(absl::Milliseconds(1), {});
        Hang();
      },
      ::testing::ExitedWithCode(HardEnd::kExitCode), "the drain hangs");
}

TEST_F(HardEndDeathTest, MayHaveAnExitCodeOfItsOwn) {
  EXPECT_EXIT(
      {
        Logger logger(LogFormat::kText, LogLevel::kInfo);
        HardEnd end(logger);
        end.Arm(absl::Milliseconds(1), {}, 42);
        Hang();
      },
      ::testing::ExitedWithCode(42), "exit_code=42");
}

TEST(HardEndTest, NeverComesUnlessItIsArmed) {
  Logger logger(LogFormat::kText, LogLevel::kInfo);
  HardEnd unarmed(logger);
  HardEnd endless(logger);
  endless.Arm(absl::InfiniteDuration(), {});
}

}  // namespace
}  // namespace upscaled::server
