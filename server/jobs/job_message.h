// Messages to webhooks about jobs that have ended, and their record in the reports of jobs.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/task.h"

namespace upscaled::server {

// The tenant of the jobs that send messages. They take turns with the jobs of other tenants, so
// that a message waits behind no backlog.
inline constexpr char kMessageTenant[] = "(webhooks)";

// Returns the id of the message about a job's end: "done-ID", "failed-ID" or "cancelled-ID", or a
// random one if that were too long. The same id for the same end, so that a message that waits is
// not queued twice.
std::string MessageId(const std::string& job, JobState state);

// Returns a job that tells the webhook of `task` that `ended` has ended. Workers send it and try
// again, so it survives them. Errors as TaskToJson's.
absl::StatusOr<NewJob> MakeMessage(Task task, EndedJob ended);

// How far the webhook of a job that has ended knows about it.
struct Telling {
  bool told = false;
  int tries = 0;
  int answer = 0;       // the status code of the last answer; 0: none came
  std::string error;    // of the last try; may name hosts that only the operator knows
  std::string message;  // the id of the job that goes on trying; "": none does
};

// Adds a telling to a JSON report as its field "webhook".
std::string WithTelling(const std::string& report, const Telling& telling);
// nullopt for a report without one.
std::optional<Telling> ReadTelling(const std::string& report);

// Returns what became of a job's webhook, up to now: asks `queue` for the message if one was
// queued. Its `message` is empty if no worker tries any more. nullopt: the job has no webhook, has
// not ended, or ended under a release that kept no record of it.
std::optional<Telling> FindTelling(JobQueue& queue, const JobInfo& job);

}  // namespace upscaled::server
