// Records and messages about a tried job.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/worker/task_runner.h"
#include "server/jobs/job_queue.h"

namespace upscaled::client {

// JobInfo::report as JSON: {"result": NAME, "computed": BOOL, "width_px": N, "height_px": N,
// "bytes": N, "warnings": [...]}, without a size that is not known; "warnings" only if the
// result has some.
std::string ResultReport(const TaskOutcome& outcome);
// {"code": ..., "reason": ..., "message": ...}, the reason being the server's.
std::string ErrorReport(const absl::Status& error);
// The text of errors/ID.json: {"job": ID, "deliveries": N, "error": ErrorReport, "task": ...}.
std::string DeadLetter(const server::LeasedJob& job, const absl::Status& error);

// A human-readable line. `settled` is the queue's answer to the end of the job.
std::string LogLine(const server::LeasedJob& job, const TaskOutcome& outcome,
                    const absl::Status& settled, absl::Duration elapsed);

}  // namespace upscaled::client
