#include "server/devices/device_supervisor.h"

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "tests/server/devices/named_backend.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using test::NamedBackend;
using ::testing::ElementsAre;

class DeviceSupervisorTest : public ::testing::Test {
 protected:
  DeviceSupervisorTest() {
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(std::make_unique<NamedBackend>("gpu:0", "of a make", 2));
    backends.push_back(std::make_unique<NamedBackend>("gpu:1", "of a make", 2));
    devices_ = *MakeDevices(std::move(backends));
    supervisor_ = std::make_unique<DeviceSupervisor>(
        devices_, clock_, timer_, logger_,
        DeviceSupervisor::Hooks{
            .create = [this](const std::string& name) -> absl::StatusOr<std::unique_ptr<Backend>> {
              created_.push_back(name);
              if (out_of_memory_) throw std::bad_alloc();
              if (!create_error_.ok()) return create_error_;
              return std::make_unique<NamedBackend>(name, "of a make", 2);
            },
            .probe =
                [this](Device&) {
                  if (while_probing_) while_probing_();
                  return probe_error_;
                },
            .restore = [this](auto device) { devices_[device->slot()] = device; },
            .on_change = [this] { ++changes_; },
            .on_hopeless = [this] { ++hopeless_; }});
  }

  absl::Duration NextAttempt() { return supervisor_->RebuildDue() - clock_.Now(); }

  FakeClock clock_;
  Logger logger_{LogFormat::kText, LogLevel::kError};
  DeviceList devices_;  // by slot, as they are now
  std::vector<std::string> created_;
  absl::Status create_error_, probe_error_;
  std::function<void()> while_probing_;
  bool out_of_memory_ = false;
  int changes_ = 0, hopeless_ = 0;
  Timer timer_{clock_};
  std::unique_ptr<DeviceSupervisor> supervisor_;
};

TEST_F(DeviceSupervisorTest, RebuildsAFailedDeviceInItsPlace) {
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  const std::shared_ptr<Device> failed = devices_[1];
  supervisor_->OnFailed(*failed, absl::InternalError("context lost"));
  EXPECT_EQ(changes_, 1);
  std::vector<DeviceState> states = supervisor_->states();
  EXPECT_TRUE(states[0].up);
  EXPECT_FALSE(states[1].up);
  EXPECT_EQ(states[1].failures, 1);
  EXPECT_EQ(states[1].fault, absl::InternalError("context lost"));

  EXPECT_EQ(NextAttempt(), absl::Seconds(1));
  EXPECT_THAT(created_, ElementsAre());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  EXPECT_THAT(created_, ElementsAre("gpu:1"));
  EXPECT_NE(devices_[1], failed);
  EXPECT_EQ(devices_[1]->slot(), 1);
  EXPECT_EQ(devices_[1]->device_class(), failed->device_class());
  EXPECT_EQ(changes_, 2);
  states = supervisor_->states();
  EXPECT_TRUE(states[1].up);
  EXPECT_EQ(states[1].failures, 1);
  EXPECT_EQ(states[1].name, "gpu:1");
  EXPECT_EQ(states[1].description, "of a make");
  EXPECT_EQ(states[1].streams, 2);
}

// Another process is asked for where a device does not answer, cannot be rebuilt, and is the last.
TEST_F(DeviceSupervisorTest, TellsWhenNothingWillWorkAgain) {
  const absl::Status hung = absl::DeadlineExceededError("does not answer");
  const auto attempt = [this] {
    clock_.Advance(absl::Minutes(1));
    NextAttempt();
  };
  create_error_ = absl::UnavailableError("lost until a restart");
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  attempt();
  supervisor_->OnFailed(*devices_[1], absl::InternalError("context lost"));
  attempt();
  EXPECT_EQ(hopeless_, 0) << "none of them hangs";
  create_error_ = absl::OkStatus();
  attempt();

  create_error_ = absl::UnavailableError("lost until a restart");
  supervisor_->OnFailed(*devices_[1], hung);
  attempt();
  EXPECT_EQ(hopeless_, 0) << "another one works";
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  EXPECT_EQ(hopeless_, 0) << "it may come back";
  attempt();
  EXPECT_GT(hopeless_, 0);
}

// Calls to its driver may never return.
TEST_F(DeviceSupervisorTest, ADeviceThatDoesNotAnswerIsNotRebuilt) {
  const absl::Status hung = absl::DeadlineExceededError("does not answer");
  supervisor_->OnFailed(*devices_[0], hung);
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  EXPECT_EQ(hopeless_, 0) << "another one works";
  // One that does not answer its first run, either.
  probe_error_ = hung;
  supervisor_->OnFailed(*devices_[1], absl::InternalError("context lost"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  EXPECT_THAT(created_, ElementsAre("gpu:1"));
  EXPECT_EQ(hopeless_, 1);
}

TEST_F(DeviceSupervisorTest, WhenTheLastDeviceDoesNotAnswerNothingIsAwaited) {
  supervisor_->OnFailed(*devices_[0], absl::DeadlineExceededError("does not answer"));
  supervisor_->OnFailed(*devices_[1], absl::DeadlineExceededError("does not answer"));
  EXPECT_EQ(hopeless_, 1);
  EXPECT_EQ(changes_, 2) << "health tells first";
}

TEST_F(DeviceSupervisorTest, TellsHowLongAnAttemptTakes) {
  EXPECT_EQ(supervisor_->RebuildingFor(absl::Hours(1)), absl::ZeroDuration());
  std::vector<absl::Duration> taken;
  while_probing_ = [&] {
    for (int i = 0; i < 2; ++i) taken.push_back(supervisor_->RebuildingFor(absl::Seconds(7)));
  };
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  clock_.Advance(absl::Seconds(1));
  NextAttempt();
  EXPECT_THAT(taken, ElementsAre(absl::Seconds(7), absl::Seconds(14)));
  EXPECT_EQ(supervisor_->RebuildingFor(absl::Hours(1)), absl::ZeroDuration());
}

TEST_F(DeviceSupervisorTest, TriesLessAndLessOften) {
  create_error_ = absl::UnavailableError("no such device any more");
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(NextAttempt(), absl::Seconds(seconds));
    clock_.Advance(absl::Seconds(seconds));
  }
  EXPECT_EQ(created_.size(), 7u);
  EXPECT_EQ(supervisor_->states()[0].fault, create_error_);
  EXPECT_EQ(supervisor_->states()[0].failures, 1);
  create_error_ = absl::OkStatus();
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  EXPECT_TRUE(supervisor_->states()[0].up);
}

TEST_F(DeviceSupervisorTest, TellsForHowLongNothingWorks) {
  create_error_ = absl::UnavailableError("lost until a restart");
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  clock_.Advance(absl::Minutes(9));
  EXPECT_EQ(supervisor_->all_down_for(), absl::ZeroDuration());
  supervisor_->OnFailed(*devices_[1], absl::InternalError("context lost"));
  EXPECT_EQ(supervisor_->all_down_for(), absl::ZeroDuration());
  for (int i = 0; i < 5; ++i) {  // attempts that fail make it no younger
    clock_.Advance(absl::Minutes(1));
    NextAttempt();
  }
  EXPECT_EQ(supervisor_->all_down_for(), absl::Minutes(5));
  create_error_ = absl::OkStatus();
  clock_.Advance(absl::Minutes(1));
  NextAttempt();
  EXPECT_EQ(supervisor_->all_down_for(), absl::ZeroDuration());
}

TEST_F(DeviceSupervisorTest, WaitsForMemory) {
  out_of_memory_ = true;
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(NextAttempt(), absl::Seconds(2));
  EXPECT_EQ(supervisor_->states()[0].fault, absl::ResourceExhaustedError("out of memory"));
  out_of_memory_ = false;
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  EXPECT_TRUE(supervisor_->states()[0].up);
}

TEST_F(DeviceSupervisorTest, ADeviceThatDoesNotComputeIsNotBack) {
  probe_error_ = absl::InternalError("wrong answers");
  const std::shared_ptr<Device> failed = devices_[0];
  supervisor_->OnFailed(*failed, absl::InternalError("context lost"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(NextAttempt(), absl::Seconds(2));
  EXPECT_FALSE(supervisor_->states()[0].up);
  EXPECT_EQ(devices_[0], failed);
  EXPECT_EQ(changes_, 1);
}

TEST_F(DeviceSupervisorTest, ADeviceThatFailsAgainSoonWaitsLonger) {
  const auto fail_and_return = [this](absl::Duration expected_delay) {
    supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
    EXPECT_EQ(NextAttempt(), expected_delay);
    clock_.Advance(expected_delay);
    EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  };
  fail_and_return(absl::Seconds(1));
  clock_.Advance(absl::Seconds(59));
  fail_and_return(absl::Seconds(2));
  clock_.Advance(absl::Seconds(59));
  fail_and_return(absl::Seconds(4));
  clock_.Advance(absl::Seconds(60));
  fail_and_return(absl::Seconds(1));
  EXPECT_EQ(supervisor_->states()[0].failures, 4);
}

TEST_F(DeviceSupervisorTest, DevicesAreRebuiltEachInItsTime) {
  supervisor_->OnFailed(*devices_[0], absl::InternalError("context lost"));
  clock_.Advance(absl::Milliseconds(400));
  supervisor_->OnFailed(*devices_[1], absl::InternalError("context lost"));
  EXPECT_EQ(NextAttempt(), absl::Milliseconds(600));
  clock_.Advance(absl::Milliseconds(600));
  EXPECT_EQ(NextAttempt(), absl::Milliseconds(400));
  EXPECT_THAT(created_, ElementsAre("gpu:0"));
  clock_.Advance(absl::Milliseconds(400));
  EXPECT_EQ(NextAttempt(), absl::InfiniteDuration());
  EXPECT_THAT(created_, ElementsAre("gpu:0", "gpu:1"));
}

TEST_F(DeviceSupervisorTest, ItsTaskRebuilds) {
  DeviceSupervisor::Hooks hooks;
  absl::Notification restored;
  hooks.create = [](const std::string& name) { return std::make_unique<NamedBackend>(name); };
  hooks.probe = [](Device&) { return absl::OkStatus(); };
  hooks.restore = [&](auto) { restored.Notify(); };
  hooks.on_change = [] {};
  Timer timer;
  DeviceSupervisor supervisor(devices_, Clock::Real(), timer, logger_, hooks,
                              {.first = absl::ZeroDuration()});
  supervisor.Start();
  supervisor.OnFailed(*devices_[0], absl::InternalError("context lost"));
  restored.WaitForNotification();
  supervisor.Stop();
}

}  // namespace
}  // namespace upscaled::server
