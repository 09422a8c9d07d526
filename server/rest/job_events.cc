#include "server/rest/job_events.h"

#include "absl/strings/str_cat.h"
#include "server/rest/job_json.h"
#include "server/rest/problem.h"
#include "server/rest/progress_events.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(10);

}  // namespace

std::string JobFeed::Next(absl::Time now) {
  std::string text = News();
  if (text.empty() && now - last_sent_ >= kSilence) text = ":\n\n";
  if (!text.empty()) last_sent_ = now;
  return text;
}

std::string JobFeed::News() {
  const absl::StatusOr<AsyncJob> job = jobs_.Find(tenant_, id_);
  if (absl::IsUnavailable(job.status())) return "";  // the operator knows; it may pass
  if (!job.ok()) {
    ended_ = true;
    return FormatEvent("failed", ProblemJson(job.status(), ""));
  }
  std::string text;
  const int64_t step = job->tiles > 0 ? 100 * job->tiles_done / job->tiles : 0;
  if (step != tiles_step_ && step > 0) {
    text = FormatEvent(
        "tiles", absl::StrCat("{\"tiles_done\":", job->tiles_done, ",\"tiles\":", job->tiles, "}"));
  }
  tiles_step_ = step;
  if (job->state != state_) absl::StrAppend(&text, FormatEvent("state", JobJson(*job)));
  state_ = job->state;
  ended_ = job->ended;
  return text;
}

}  // namespace upscaled::server
