#include "client/jobs/job_failure.h"

#include "proto/json/shallow_json.h"

namespace upscaled::client {
namespace {

// "" for a field that is no text.
std::string Text(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

}  // namespace

JobFailure ReadFailure(const std::string& report) {
  nlohmann::json object = ParseShallow(report);
  if (!object.is_object()) object = nlohmann::json::object();
  JobFailure failure{.code = Text(object, "code"), .reason = Text(object, "reason")};
  failure.message = failure.reason.empty() ? "no worker could do it; the operator knows why"
                                           : Text(object, "message");
  return failure;
}

}  // namespace upscaled::client
