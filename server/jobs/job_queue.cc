#include "server/jobs/job_queue.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace upscaled::server {

bool HasEnded(JobState state) { return state != JobState::kWaiting && state != JobState::kRunning; }

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

bool JobFilter::Matches(const JobInfo& job) const {
  const auto fits = [](const std::string& wanted, const std::string& value) {
    return wanted.empty() || wanted == value;
  };
  return state.value_or(job.state) == job.state && fits(id, job.id) &&
         fits(tenant, job.labels.tenant) && fits(batch, job.labels.batch) &&
         fits(reference, job.labels.reference);
}

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("there is no job ", id));
}

absl::Status NoSuchQueue(const std::string& place) {
  return absl::NotFoundError(absl::StrCat("there is no queue in ", place));
}

absl::Status CannotCancel(const std::string& id, absl::string_view state) {
  return absl::FailedPreconditionError(absl::StrCat("job ", id, " is ", state));
}

absl::Status LeaseIsLost(const std::string& id, bool cancelled) {
  if (cancelled) return absl::CancelledError(absl::StrCat("job ", id, " was cancelled"));
  return absl::AbortedError(absl::StrCat("job ", id, " is another worker's by now"));
}

absl::Status CheckJobId(const std::string& id) {
  constexpr size_t kMaxBytes = 64;
  const bool named = !id.empty() && id.size() <= kMaxBytes && std::ranges::all_of(id, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  if (named) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", id, "\" names no job: 1 to ", kMaxBytes, " letters, digits, - and _ do"));
}

}  // namespace upscaled::server
