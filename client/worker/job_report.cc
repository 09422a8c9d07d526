#include "client/worker/job_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/error_details.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

using nlohmann::json;

// Names of files may be no UTF-8; they must not stop a report.
std::string Text(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

json ToJson(const absl::Status& error) {
  return {{"code", absl::StatusCodeToString(error.code())},
          {"reason", DetailsOf(error).reason},
          {"message", std::string(error.message())}};
}

std::string WhatCame(const TaskOutcome& outcome) {
  switch (outcome.blame) {
    case Blame::kNobody:
      return absl::StrCat(
          outcome.result, outcome.computed ? "" : ", which was there already",
          outcome.warnings.empty() ? "" : "; warning: ", absl::StrJoin(outcome.warnings, "; "));
    case Blame::kTask:
      return absl::StrCat("failed: ", outcome.status.message());
    case Blame::kPassing:
      return absl::StrCat("not this time: ", outcome.status.message());
    case Blame::kLimit:
      return absl::StrCat("handed back, since no room came: ", outcome.status.message());
    case Blame::kWorker:
      return absl::StrCat("handed back: ", outcome.status.message());
  }
  return "";
}

}  // namespace

std::string ResultReport(const TaskOutcome& outcome) {
  json report = {{"result", outcome.result}, {"computed", outcome.computed}};
  if (outcome.width_px > 0) {
    report["width_px"] = outcome.width_px;
    report["height_px"] = outcome.height_px;
  }
  if (outcome.result_bytes > 0) report["bytes"] = outcome.result_bytes;
  if (!outcome.warnings.empty()) report["warnings"] = outcome.warnings;
  return Text(report);
}

std::string ErrorReport(const absl::Status& error) { return Text(ToJson(error)); }

std::string DeadLetter(const server::LeasedJob& job, const absl::Status& error) {
  json task = ParseShallow(job.task);
  if (task.is_discarded()) task = job.task;
  if (task.is_object()) {
    for (json& field : task) {
      if (field.is_string()) field = server::WithoutSecrets(field.get<std::string>());
    }
  }
  return Text({{"job", job.id},
               {"deliveries", job.delivery},
               {"error", ToJson(error)},
               {"task", std::move(task)}});
}

std::string LogLine(const server::LeasedJob& job, const TaskOutcome& outcome,
                    const absl::Status& settled, absl::Duration elapsed) {
  std::string line = absl::StrFormat("job %s: %s (%.1f s)", job.id, WhatCame(outcome),
                                     absl::ToDoubleSeconds(elapsed));
  if (!settled.ok()) absl::StrAppend(&line, "; ", settled.message());
  return line;
}

}  // namespace upscaled::client
