#include "server/rest/job_json.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {

std::string JobPath(std::string_view id) { return absl::StrCat("/v1/jobs/", ToAbsl(id)); }

std::string JobJson(const AsyncJob& job) {
  nlohmann::ordered_json json = {
      {"id", job.id},
      {"state", job.state},
      {"submitted", absl::FormatTime(absl::RFC3339_full, job.submitted, absl::UTCTimeZone())},
      {"changed", absl::FormatTime(absl::RFC3339_full, job.changed, absl::UTCTimeZone())},
      {"deliveries", job.deliveries},
      {"progress", nullptr},
      {"result", nullptr},
      {"error", nullptr}};
  if (job.tiles > 0) json["progress"] = {{"tiles_done", job.tiles_done}, {"tiles", job.tiles}};
  if (!job.result_name.empty()) json["result"] = absl::StrCat(JobPath(job.id), "/result");
  if (job.failure.has_value()) {
    json["error"] = {{"code", job.failure->code},
                     {"reason", job.failure->reason},
                     {"message", job.failure->message}};
  }
  // Messages repeat what clients sent, which need not be text.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace upscaled::server
