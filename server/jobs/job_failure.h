// The cause of a job's failure, in words for its submitter.
#pragma once

#include <string>

namespace upscaled::server {

// `reason` and `message` come from the computing server. They are empty, and the message says so,
// if the job failed elsewhere: other messages name hosts and paths of the operator.
struct JobFailure {
  std::string code, reason, message;
};

// Reads JobInfo::report of a failed job, or any other text.
JobFailure ReadFailure(const std::string& report);

}  // namespace upscaled::server
