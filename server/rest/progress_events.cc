#include "server/rest/progress_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/rest/problem.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kCommentInterval = absl::Seconds(10);

std::string TilesJson(const RequestProgress::State& state) {
  return absl::StrCat("{\"tiles_done\":", state.tiles_done, ",\"tiles\":", state.tiles, "}");
}

std::string DoneJson(const RequestProgress::State& state) {
  std::string json = TilesJson(state);
  if (state.summary_json.empty()) return json;
  json.pop_back();
  return absl::StrCat(json, ",\"summary\":", state.summary_json, "}");
}

std::string UploadJson(const RequestProgress::State& state) {
  return absl::StrCat("{\"bytes\":", state.received_bytes, ",\"total\":", state.total_bytes, "}");
}

// Per cent of the upload, or mebibytes where its length is not known.
int64_t UploadStep(const RequestProgress::State& state) {
  if (state.total_bytes > 0) return 100 * state.received_bytes / state.total_bytes;
  return state.received_bytes >> 20;
}

bool Advanced(int64_t value, int64_t& seen) {
  if (value <= seen) return false;
  seen = value;
  return true;
}

absl::Status NoRequest() {
  return MakeError(
      absl::StatusCode::kNotFound, ErrorReason::kUnspecified,
      absl::StrCat("no request of this id has come within ", absl::FormatDuration(kPatience)));
}

}  // namespace

std::string FormatEvent(std::string_view name, std::string_view data) {
  return absl::StrCat("event: ", ToAbsl(name), "\ndata: ", ToAbsl(data), "\n\n");
}

std::string ProgressEvents::Next(const RequestProgress* progress, absl::Time now) {
  std::string text;
  if (progress != nullptr) {
    text = News(progress->state());
  } else if (now - begin_ >= kPatience) {
    ended_ = true;
    text = FormatEvent("failed", ProblemJson(NoRequest(), request_id_));
  }
  if (text.empty() && now - last_sent_ >= kCommentInterval) text = ":\n\n";
  if (!text.empty()) last_sent_ = now;
  return text;
}

std::string ProgressEvents::News(const RequestProgress::State& state) {
  std::string text;
  if (!std::exchange(queued_, true)) text += FormatEvent("queued", TilesJson({}));
  if (Advanced(UploadStep(state), upload_step_)) text += FormatEvent("upload", UploadJson(state));
  const bool running = state.phase != RequestProgress::Phase::kQueued && state.tiles > 0;
  if (running && !std::exchange(started_, true)) {
    text += FormatEvent("started", TilesJson({.tiles = state.tiles}));
  }
  if (state.phase == RequestProgress::Phase::kEnded) {
    ended_ = true;
    return text + (state.status.ok()
                       ? FormatEvent("done", DoneJson(state))
                       : FormatEvent("failed", ProblemJson(state.status, request_id_)));
  }
  if (state.tiles > 0 && Advanced(100 * state.tiles_done / state.tiles, tiles_step_)) {
    text += FormatEvent("tiles", TilesJson(state));
  }
  return text;
}

}  // namespace upscaled::server
