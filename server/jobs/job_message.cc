#include "server/jobs/job_message.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr char kField[] = "webhook";

int CountOf(const json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number_integer() ? field->get<int>() : 0;
}

}  // namespace

std::string MessageId(const std::string& job, JobState state) {
  std::string id = absl::StrCat(JobStateName(state), "-", job);
  return CheckJobId(id).ok() ? id : RandomUuid();
}

absl::StatusOr<NewJob> MakeMessage(Task task, EndedJob ended) {
  std::string id = MessageId(ended.id, ended.state);
  task.ended_job = std::move(ended);
  ASSIGN_OR_RETURN(std::string text, TaskToJson(task));
  return NewJob{.id = std::move(id), .task = std::move(text), .labels = {.tenant = kMessageTenant}};
}

std::string WithTelling(const std::string& report, const Telling& telling) {
  json object = ParseShallow(report);
  if (!object.is_object()) object = json::object();
  json& field = object[kField];
  field = {{"told", telling.told}, {"tries", telling.tries}};
  if (telling.answer != 0) field["answer"] = telling.answer;
  if (!telling.error.empty()) field["error"] = telling.error;
  if (!telling.message.empty()) field["message"] = telling.message;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<Telling> ReadTelling(const std::string& report) {
  const json object = ParseShallow(report);
  const auto field = object.find(kField);
  if (field == object.end() || !field->is_object()) return std::nullopt;
  const auto told = field->find("told");
  return Telling{.told = told != field->end() && *told == true,
                 .tries = CountOf(*field, "tries"),
                 .answer = CountOf(*field, "answer"),
                 .error = TextOf(*field, "error"),
                 .message = TextOf(*field, "message")};
}

std::optional<Telling> FindTelling(JobQueue& queue, const JobInfo& job) {
  if (!HasEnded(job.state)) return std::nullopt;
  std::optional<Telling> first = ReadTelling(job.report);
  if (job.state == JobState::kCancelled) {  // no worker has told anything yet
    if (TextOf(ParseShallow(job.task), "webhook").empty()) return std::nullopt;
    first = Telling{.message = MessageId(job.id, job.state)};
  }
  if (!first.has_value() || first->message.empty()) return first;
  const absl::StatusOr<std::vector<JobInfo>> found = queue.List({.id = first->message, .limit = 1});
  if (!found.ok() || found->empty()) return first;
  const JobInfo& message = found->front();
  Telling latest = ReadTelling(message.report).value_or(*first);
  latest.message = HasEnded(message.state) ? "" : message.id;
  return latest;
}

}  // namespace upscaled::server
