#include "client/cli/follow_jobs.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

bool HasChanged(const server::JobInfo& before, const server::JobInfo& now) {
  return before.state != now.state || before.deliveries != now.deliveries ||
         before.report != now.report || before.progress != now.progress;
}

absl::StatusOr<server::JobInfo> Find(server::JobQueue& queue, const std::string& id) {
  ASSIGN_OR_RETURN(std::vector<server::JobInfo> found, queue.List({.id = id}));
  if (found.empty()) return absl::NotFoundError(absl::StrCat("there is no job ", id));
  return std::move(found.front());
}

}  // namespace

absl::StatusOr<bool> FollowJobs(server::JobQueue& queue, std::vector<std::string> ids,
                                absl::FunctionRef<void(const server::JobInfo&)> on_change,
                                RetryClock& clock, std::stop_token stop) {
  std::map<std::string, server::JobInfo> seen;
  bool all_done = true;
  // Whether more news of the job may come.
  const auto look = [&](const std::string& id) -> absl::StatusOr<bool> {
    const absl::StatusOr<server::JobInfo> job = Find(queue, id);
    if (absl::IsUnavailable(job.status())) return true;
    RETURN_IF_ERROR(job.status());
    const auto [last, is_new] = seen.try_emplace(id, *job);
    if (is_new || HasChanged(last->second, *job)) on_change(*job);
    last->second = *job;
    if (!server::HasEnded(job->state)) return true;
    all_done = all_done && job->state == server::JobState::kDone;
    return false;
  };
  while (true) {
    std::vector<std::string> left;
    for (const std::string& id : ids) {
      ASSIGN_OR_RETURN(const bool goes_on, look(id));
      if (goes_on) left.push_back(id);
    }
    if (left.empty()) return all_done;
    ids = std::move(left);
    clock.Sleep(kFollowInterval, stop);
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
  }
}

}  // namespace upscaled::client
