#include "server/jobs/task.h"

#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/jobs/job_place.h"
#include "server/jobs/job_queue.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the task ", what));
}

absl::Status ReadOptions(const json& value, upscale::v1::UpscaleOptions& options) {
  const auto status = google::protobuf::util::JsonStringToMessage(value.dump(), &options);
  if (status.ok()) return absl::OkStatus();
  return Wrong(absl::StrCat("has wrong \"options\": ", std::string(status.message())));
}

absl::Status ReadText(const std::string& name, const json& value, std::string& text) {
  if (!value.is_string()) return Wrong(absl::StrCat("has a \"", name, "\" that is no text"));
  text = value.get<std::string>();
  return absl::OkStatus();
}

// An absolute path or a URL.
absl::Status ReadPlace(const std::string& name, const json& value, std::string& place) {
  RETURN_IF_ERROR(ReadText(name, value, place));
  if (absl::StartsWith(place, "/") || IsUrl(place)) return absl::OkStatus();
  return Wrong(absl::StrCat("has the ", name, " \"", WithoutSecrets(place),
                            "\", which is neither an absolute path nor an http(s) or s3 URL"));
}

absl::Status ReadCount(const std::string& name, const json& value, int64_t least, int64_t& count) {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (value.is_number_integer() && value >= least && value <= kMost) {
    count = value.get<int64_t>();
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("has a film with \"", name, "\": ", value.dump(), ", must be ", least,
                            "..", kMost));
}

absl::Status ReadFilm(const json& object, std::optional<FilmPart>& result) {
  if (!object.is_object()) return Wrong("has a \"film\" that is no object");
  FilmPart film;
  const std::pair<const char*, std::string*> texts[] = {
      {"id", &film.id}, {"matrix", &film.matrix}, {"codec", &film.codec}};
  const std::tuple<const char*, int64_t*, int64_t> counts[] = {
      {"number", &film.number, 0},
      {"frames", &film.frames, 1},
      {"part_frames", &film.part_frames, 1},
      {"rate", &film.rate, 1},
      {"rate_by", &film.rate_by, 1}};
  const std::pair<const char*, std::string*> colours[] = {// which earlier releases did not write
                                                          {"primaries", &film.primaries},
                                                          {"transfer", &film.transfer},
                                                          {"range", &film.range}};
  for (const auto& [name, text] : texts)
    RETURN_IF_ERROR(ReadText(name, object.value(name, json()), *text));
  size_t known = std::size(texts);
  for (const auto& [name, text] : colours) {
    if (!object.contains(name)) continue;
    RETURN_IF_ERROR(ReadText(name, object[name], *text));
    ++known;
  }
  for (const auto& [name, count, least] : counts)
    RETURN_IF_ERROR(ReadCount(name, object.value(name, json()), least, *count));
  const json start = object.value("start_s", json());
  if (!start.is_number()) return Wrong("has a film with a \"start_s\" that is no number");
  film.start_s = start.get<double>();
  if (object.size() != known + std::size(counts) + 1)
    return Wrong("has a film with a field that is not known");
  RETURN_IF_ERROR(CheckJobId(film.id));  // a folder is named after it
  if (film.number >= film.parts())
    return Wrong(absl::StrCat("has part ", film.number, " of a film of ", film.parts()));
  result = film;
  return absl::OkStatus();
}

absl::Status ReadEndedJob(const json& object, std::optional<EndedJob>& result) {
  if (!object.is_object() || object.size() != 3)
    return Wrong("has an \"ended_job\" that is no object of id, state and report");
  EndedJob ended;
  std::string state;
  const std::pair<const char*, std::string*> texts[] = {
      {"id", &ended.id}, {"state", &state}, {"report", &ended.report}};
  for (const auto& [name, text] : texts)
    RETURN_IF_ERROR(ReadText(name, object.value(name, json()), *text));
  const std::optional<JobState> known = ParseJobState(state);
  if (!known.has_value() || !HasEnded(*known))
    return Wrong(absl::StrCat("has an ended job with the state \"", state, "\""));
  ended.state = *known;
  result = std::move(ended);
  return absl::OkStatus();
}

absl::Status ReadCancelledJob(const json& id, std::optional<EndedJob>& result) {
  result = EndedJob{.state = JobState::kCancelled};
  return ReadText("cancelled_job", id, result->id);
}

json ToJson(const EndedJob& ended) {
  return {{"id", ended.id},
          {"state", std::string(JobStateName(ended.state))},
          {"report", ended.report}};
}

json ToJson(const FilmPart& film) {
  json object = {{"id", film.id},           {"number", film.number},
                 {"frames", film.frames},   {"part_frames", film.part_frames},
                 {"rate", film.rate},       {"rate_by", film.rate_by},
                 {"start_s", film.start_s}, {"matrix", film.matrix},
                 {"codec", film.codec}};
  const std::pair<const char*, const std::string*> colours[] = {
      {"primaries", &film.primaries}, {"transfer", &film.transfer}, {"range", &film.range}};
  for (const auto& [name, text] : colours)
    if (!text->empty()) object[name] = *text;
  return object;
}

absl::Status ReadField(const std::string& name, const json& value, Task& task) {
  if (name == "source") return ReadPlace(name, value, task.source);
  if (name == "output") return ReadPlace(name, value, task.output);
  if (name == "webhook") {
    RETURN_IF_ERROR(ReadPlace(name, value, task.webhook));
    return IsHttpUrl(task.webhook) ? absl::OkStatus() : Wrong("has a \"webhook\" that is no URL");
  }
  if (name == "reference") return ReadText(name, value, task.reference);
  if (name == "shown_source") return ReadText(name, value, task.shown_source);
  if (name == "shown_output") return ReadText(name, value, task.shown_output);
  if (name == "ended_job") return ReadEndedJob(value, task.ended_job);
  if (name == "cancelled_job") return ReadCancelledJob(value, task.ended_job);
  if (name == "options") return ReadOptions(value, task.options);
  if (name == "film") return ReadFilm(value, task.film);
  return Wrong(absl::StrCat("has a field \"", name, "\", which is not known"));
}

// `text` as JSON keeps it: with a mark for each byte that is not UTF-8.
std::string AsUtf8(const std::string& text) {
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

absl::StatusOr<std::string> TaskToJson(const Task& task) {
  for (const std::string* place : {&task.source, &task.output, &task.webhook}) {
    if (const std::string kept = AsUtf8(*place); kept != *place)
      return Wrong(absl::StrCat("names ", kept, ", which is not UTF-8"));
  }
  using google::protobuf::util::MessageDifferencer;
  std::string text;
  upscale::v1::UpscaleOptions kept;
  const bool is_kept = google::protobuf::util::MessageToJsonString(task.options, &text).ok() &&
                       google::protobuf::util::JsonStringToMessage(text, &kept).ok() &&
                       MessageDifferencer::Equals(kept, task.options);
  if (!is_kept) return Wrong("has \"options\" that JSON would change: their texts must be UTF-8");
  json object = {{"source", task.source}, {"options", ParseShallow(text)}};
  const std::pair<const char*, const std::string*> texts[] = {{"output", &task.output},
                                                              {"webhook", &task.webhook},
                                                              {"reference", &task.reference},
                                                              {"shown_source", &task.shown_source},
                                                              {"shown_output", &task.shown_output}};
  for (const auto& [name, value] : texts) {
    if (!value->empty()) object[name] = *value;
  }
  if (task.film.has_value()) object["film"] = ToJson(*task.film);
  if (task.ended_job.has_value()) object["ended_job"] = ToJson(*task.ended_job);
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<Task> ParseTask(const std::string& text) {
  const json object = ParseShallow(text);
  if (!object.is_object()) return Wrong("is no JSON object");
  Task task;
  for (const auto& [name, value] : object.items()) RETURN_IF_ERROR(ReadField(name, value, task));
  if (task.source.empty()) return Wrong("names no source");
  if (task.film.has_value() &&
      !(absl::StartsWith(task.source, "/") && absl::StartsWith(task.output, "/")))
    return Wrong("has a film whose source or output is no path");
  return task;
}

}  // namespace upscaled::server
