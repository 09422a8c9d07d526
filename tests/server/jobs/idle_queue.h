// A queue for tests with one call of it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/jobs/job_queue.h"

namespace upscaled::server {

// Has no jobs, keeps none, and succeeds in everything.
class IdleQueue : public JobQueue {
 public:
  absl::Status Enqueue(std::span<const NewJob>) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Duration) override { return std::nullopt; }
  absl::Status Extend(const LeasedJob&, absl::Duration, const JobProgress&) override {
    return absl::OkStatus();
  }
  absl::Status Complete(const LeasedJob&, const std::string&) override { return absl::OkStatus(); }
  absl::Status Fail(const LeasedJob&, const std::string&) override { return absl::OkStatus(); }
  absl::Status Retry(const LeasedJob&, const std::string&, absl::Duration) override {
    return absl::OkStatus();
  }
  absl::Status HandBack(const LeasedJob&) override { return absl::OkStatus(); }
  absl::Status Cancel(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<JobInfo>> List(const JobFilter&) override {
    return std::vector<JobInfo>();
  }
  absl::StatusOr<std::map<JobState, int64_t>> Count() override {
    return std::map<JobState, int64_t>();
  }
  absl::StatusOr<int> ForgetEnded(absl::Duration, int) override { return 0; }
  absl::StatusOr<bool> TakeTurn(const std::string&, absl::Duration) override { return true; }
};

}  // namespace upscaled::server
