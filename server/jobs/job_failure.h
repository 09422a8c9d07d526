// Why a job has failed, in words that its submitter may read.
#pragma once

#include <string>

namespace upscaled::server {

// `reason` and `message` are those of the server that computed. They are empty, and the message
// says so, if the job failed elsewhere: other messages name hosts and paths of the operator.
struct JobFailure {
  std::string code, reason, message;
};

// Reads JobInfo::report of a failed job, or any other text.
JobFailure ReadFailure(const std::string& report);

}  // namespace upscaled::server
