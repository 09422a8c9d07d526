#include "server/lifecycle/readiness.h"

#include <string>
#include <utility>

#include "server/lifecycle/try.h"

namespace upscaled::server {

Readiness::Readiness(Timer& timer, Checks checks, Hooks hooks, Logger& logger)
    : checks_(std::move(checks)),
      hooks_(std::move(hooks)),
      logger_(logger),
      task_(timer, Timer::Length::kMayBlock, [this] { Run(); }) {}

Readiness::~Readiness() { Stop(); }

void Readiness::Start() { task_.Request(); }

void Readiness::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void Readiness::Run() {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
  }
  task_.Request(Check());
}

absl::Duration Readiness::Check() {
  absl::Status state = Try(checks_.resources);
  const absl::Status served = Try(checks_.self_call);
  failures_ = served.ok() ? 0 : failures_ + 1;
  if (served.ok()) hooks_.on_served();
  if (state.ok() && failures_ >= kFailuresThatCount) state = served;
  Report(state);
  logger_.TellDrops();
  return served.ok() || failures_ >= kFailuresThatCount ? kInterval : kRetryInterval;
}

void Readiness::Report(const absl::Status& state) {
  bool changed = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    changed = state.ok() != state_.ok();
    state_ = state;
  }
  if (!changed) return;
  const std::string reason(state.message());
  const LogField fields[] = {{"reason", reason}};
  if (state.ok()) {
    logger_.Log(LogLevel::kInfo, "takes calls again");
  } else {
    logger_.Log(LogLevel::kError, "cannot take calls", fields);
  }
  hooks_.on_change(state.ok());
}

absl::Status Readiness::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

}  // namespace upscaled::server
