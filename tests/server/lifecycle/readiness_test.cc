#include "server/lifecycle/readiness.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"

namespace upscaled::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReadinessTest : public ::testing::Test {
 protected:
  std::ostringstream log_;
  Logger logger_{LogFormat::kText, LogLevel::kDebug,
                 std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)};
  absl::Status call_, resources_;
  std::vector<bool> changes_;
  int served_ = 0;
  Timer timer_;
  Readiness readiness_{
      timer_,
      {.self_call = [this] { return call_; }, .resources = [this] { return resources_; }},
      {.on_change = [this](bool ready) { changes_.push_back(ready); },
       .on_served = [this] { ++served_; }},
      logger_};
};

TEST_F(ReadinessTest, TheSecondFailedCallCounts) {
  EXPECT_EQ(readiness_.Check(), Readiness::kInterval);
  call_ = absl::UnavailableError("nobody is there");
  EXPECT_EQ(readiness_.Check(), Readiness::kRetryInterval);
  EXPECT_TRUE(readiness_.state().ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(readiness_.Check(), Readiness::kInterval);
  EXPECT_EQ(readiness_.state().message(), "nobody is there");
  EXPECT_THAT(changes_, ElementsAre(false));
  call_ = absl::OkStatus();
  readiness_.Check();
  EXPECT_TRUE(readiness_.state().ok());
  EXPECT_THAT(changes_, ElementsAre(false, true));
  EXPECT_EQ(served_, 2);
  const std::string log = log_.str();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log, HasSubstr("error cannot take calls reason=\"nobody is there\"\n"));
  EXPECT_THAT(log, HasSubstr("info takes calls again\n"));
}

TEST_F(ReadinessTest, ALackCountsAtOnce) {
  resources_ = absl::ResourceExhaustedError("no threads");
  readiness_.Check();
  EXPECT_EQ(readiness_.state().message(), "no threads");
  EXPECT_EQ(served_, 1);
}

TEST_F(ReadinessTest, SaysNothingOnceItIsStopped) {
  readiness_.Stop();
  resources_ = absl::ResourceExhaustedError("no threads");
  readiness_.Check();
  EXPECT_TRUE(changes_.empty());
  EXPECT_EQ(log_.str(), "");
}

TEST_F(ReadinessTest, ChecksOnItsThreadAndSurvivesExceptions) {
  absl::Notification called, changed;
  Readiness readiness(timer_,
                      {.self_call = []() -> absl::Status { return absl::OkStatus(); },
                       .resources = []() -> absl::Status { throw std::runtime_error("no /proc"); }},
                      {.on_change = [&](bool) { changed.Notify(); },
                       .on_served =
                           [&] {
                             if (!called.HasBeenNotified()) called.Notify();
                           }},
                      logger_);
  readiness.Start();
  called.WaitForNotification();
  changed.WaitForNotification();
  EXPECT_EQ(readiness.state().message(), "no /proc");
}

}  // namespace
}  // namespace upscaled::server
