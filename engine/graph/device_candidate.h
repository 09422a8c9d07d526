// A candidate on a device; the device may refuse it: then it takes forever and computes nothing.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled {

class DeviceCandidate : public LayerCandidate {
 public:
  void Run() final {
    if (!status_.ok()) return;
    const absl::StatusOr<absl::Duration> time = RunOnce();
    status_ = time.status();
    last_run_time_ = time.ok() ? *time : absl::InfiniteDuration();
  }
  std::optional<absl::Duration> LastRunTime() const final { return last_run_time_; }
  std::vector<float> Compute(std::span<const float> input) final {
    if (!status_.ok()) return {};
    absl::StatusOr<std::vector<float>> output = ComputeFrom(input);
    status_ = output.status();
    return output.ok() ? *std::move(output) : std::vector<float>();
  }

 protected:
  // Notes the outcome of preparing it; for the constructor.
  void SetStatus(absl::Status status) { status_ = std::move(status); }
  // The kernel's time by the device's clock.
  virtual absl::StatusOr<absl::Duration> RunOnce() = 0;
  virtual absl::StatusOr<std::vector<float>> ComputeFrom(std::span<const float> input) = 0;

 private:
  absl::Status status_;
  absl::Duration last_run_time_ = absl::InfiniteDuration();
};

}  // namespace upscaled
