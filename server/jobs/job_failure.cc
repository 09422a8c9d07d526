#include "server/jobs/job_failure.h"

#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"

namespace upscaled::server {

JobFailure ReadFailure(const std::string& report) {
  const nlohmann::json object = ParseShallow(report);
  JobFailure failure{.code = TextOf(object, "code"), .reason = TextOf(object, "reason")};
  failure.message = failure.reason.empty() ? "no worker could do it; the operator knows why"
                                           : TextOf(object, "message");
  return failure;
}

}  // namespace upscaled::server
