#include "server/rest/job_json.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {

using nlohmann::ordered_json;

namespace {

// null for an empty text.
ordered_json TextOrNull(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json ToJson(const AsyncJob& job) {
  ordered_json json = {
      {"id", job.id},
      {"state", job.state},
      {"batch", TextOrNull(job.batch)},
      {"reference", TextOrNull(job.reference)},
      {"submitted", absl::FormatTime(absl::RFC3339_full, job.submitted, absl::UTCTimeZone())},
      {"changed", absl::FormatTime(absl::RFC3339_full, job.changed, absl::UTCTimeZone())},
      {"deliveries", job.deliveries},
      {"progress", nullptr},
      {"result", nullptr},
      {"size", nullptr},
      {"warnings", job.warnings},
      {"webhook", nullptr},
      {"error", nullptr}};
  if (job.tiles > 0) json["progress"] = {{"tiles_done", job.tiles_done}, {"tiles", job.tiles}};
  if (!job.result_name.empty()) json["result"] = absl::StrCat(JobPath(job.id), "/result");
  if (job.width_px > 0) json["size"] = {{"width_px", job.width_px}, {"height_px", job.height_px}};
  if (job.webhook.has_value()) {
    json["webhook"] = {{"state", job.webhook->state},
                       {"tries", job.webhook->tries},
                       {"error", TextOrNull(job.webhook->error)}};
  }
  if (job.failure.has_value()) {
    json["error"] = {{"code", job.failure->code},
                     {"reason", job.failure->reason},
                     {"message", job.failure->message}};
  }
  return json;
}

ordered_json ToJson(const std::vector<AsyncJob>& jobs) {
  ordered_json list = ordered_json::array();
  for (const AsyncJob& job : jobs) list.push_back(ToJson(job));
  return list;
}

// Messages repeat bytes of clients, possibly not text.
std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string JobPath(std::string_view id) { return absl::StrCat("/v1/jobs/", ToAbsl(id)); }

std::string JobJson(const AsyncJob& job) { return Dump(ToJson(job)); }

std::string JobListJson(const std::vector<AsyncJob>& jobs, const std::string& next) {
  return Dump({{"jobs", ToJson(jobs)}, {"next", TextOrNull(next)}});
}

std::string BatchJson(const std::string& batch, const std::vector<AsyncJob>& jobs) {
  return Dump({{"batch", batch}, {"jobs", ToJson(jobs)}});
}

}  // namespace upscaled::server
