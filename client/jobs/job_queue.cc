#include "client/jobs/job_queue.h"

namespace upscaled::client {

absl::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kWaiting:
      return "waiting";
    case JobState::kRunning:
      return "running";
    case JobState::kDone:
      return "done";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "";
}

std::optional<JobState> ParseJobState(absl::string_view name) {
  for (const JobState state : kJobStates) {
    if (JobStateName(state) == name) return state;
  }
  return std::nullopt;
}

}  // namespace upscaled::client
