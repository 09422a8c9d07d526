#include "client/cli/image_report.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/error_details.h"

namespace upscaled::client {
namespace {

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

std::string NameOf(const std::string& input) {
  return input == kStandardStream ? "standard input" : input;
}

std::string SuccessLine(const ImageOutcome& outcome, bool verbose) {
  const v1::UpscaleImageHeader& header = outcome.result.header;
  std::string line =
      absl::StrFormat("%s: %dx%d -> %dx%d, %.2f s", NameOf(outcome.job.input),
                      header.source_width_px(), header.source_height_px(), header.result_width_px(),
                      header.result_height_px(), absl::ToDoubleSeconds(outcome.elapsed));
  if (header.frames() > 1) {
    absl::StrAppendFormat(&line, ", %d frames", header.frames());
    if (outcome.result.summary.unchanged_frames() > 0)
      absl::StrAppendFormat(&line, " of which %d equal the one before",
                            outcome.result.summary.unchanged_frames());
  }
  if (outcome.job.output != kStandardStream) absl::StrAppend(&line, ": ", outcome.job.output);
  if (verbose) {
    const v1::UpscaleSummary& summary = outcome.result.summary;
    const v1::StageTimings& timings = summary.timings();
    absl::StrAppendFormat(
        &line,
        " (%s, %d bytes; %s on %s, %d tiles, %d pixels spared; on the server "
        "%.3f s: queue %.3f, decode %.3f, infer "
        "%.3f, encode %.3f; tries %d; request %s)",
        FormatName(header.format()), summary.result_bytes(),
        header.has_noise_level() ? absl::StrCat(header.model(), " noise ", header.noise_level())
                                 : header.model(),
        summary.device(), summary.tiles(), summary.spared_pixels(), Seconds(timings.total()),
        Seconds(timings.queue()), Seconds(timings.decode()), Seconds(timings.infer()),
        Seconds(timings.encode()), outcome.result.attempts, header.request_id());
  }
  return line;
}

// The warnings of header and summary, in order.
std::vector<std::string> WarningsOf(const ImageResult& result) {
  std::vector<std::string> warnings(result.header.warnings().begin(),
                                    result.header.warnings().end());
  warnings.insert(warnings.end(), result.summary.warnings().begin(),
                  result.summary.warnings().end());
  return warnings;
}

// Names of files may be no UTF-8; they must not stop the report.
void PrintJson(const nlohmann::json& json) {
  absl::PrintF("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

nlohmann::json ResultJson(const ImageOutcome& outcome) {
  const v1::UpscaleImageHeader& header = outcome.result.header;
  const v1::UpscaleSummary& summary = outcome.result.summary;
  const v1::StageTimings& timings = summary.timings();
  return {{"source",
           {{"width_px", header.source_width_px()},
            {"height_px", header.source_height_px()},
            {"bytes", outcome.result.source_bytes}}},
          {"result",
           {{"width_px", header.result_width_px()},
            {"height_px", header.result_height_px()},
            {"bytes", summary.result_bytes()},
            {"format", FormatName(header.format())},
            {"bits_per_sample", header.bits_per_sample()},
            {"channels", header.channels()}}},
          {"model", header.model()},
          {"noise_level", header.has_noise_level() ? header.noise_level() : -1},
          {"device", summary.device()},
          {"tiles", summary.tiles()},
          {"spared_pixels", summary.spared_pixels()},
          {"frames", header.frames()},
          {"unchanged_pixels", summary.unchanged_pixels()},
          {"unchanged_frames", summary.unchanged_frames()},
          {"request_id", header.request_id()},
          {"attempts", outcome.result.attempts},
          {"warnings", WarningsOf(outcome.result)},
          {"server_timings_s",
           {{"total", Seconds(timings.total())},
            {"queue", Seconds(timings.queue())},
            {"decode", Seconds(timings.decode())},
            {"infer", Seconds(timings.infer())},
            {"encode", Seconds(timings.encode())}}}};
}

}  // namespace

nlohmann::json OutcomeJson(const ImageOutcome& outcome) {
  nlohmann::json json = {{"input", outcome.job.input}, {"output", outcome.job.output}};
  if (outcome.skipped) {
    json["status"] = "skipped";
    return json;
  }
  json["status"] = outcome.status.ok() ? "ok" : "failed";
  json["elapsed_s"] = absl::ToDoubleSeconds(outcome.elapsed);
  if (outcome.status.ok()) {
    json.update(ResultJson(outcome));
  } else {
    json["error"] = ErrorJson(outcome.status);
  }
  return json;
}

nlohmann::json LeftOutJson(const LeftOut& left_out) {
  nlohmann::json json = {{"input", left_out.path}};
  json["status"] = left_out.error.ok() ? "left_out" : "failed";
  if (left_out.error.ok()) {
    json["reason"] = left_out.reason;
  } else {
    json["error"] = ErrorJson(left_out.error);
  }
  return json;
}

void ImageReport::Add(const LeftOut& left_out) {
  const std::string line = absl::StrCat(left_out.path, ": ", left_out.reason);
  {
    absl::MutexLock lock(&mutex_);
    if (left_out.error.ok()) {
      ++left_out_;
    } else {
      failures_.push_back(line);
    }
    if (style_ == ReportStyle::kJson) PrintJson(LeftOutJson(left_out));
  }
  if (style_ == ReportStyle::kVerbose) {
    bar_.Print(absl::StrCat("upscale: left out ", line));
  } else if (style_ == ReportStyle::kJson && !left_out.error.ok()) {
    bar_.Print(absl::StrCat("upscale: ", line));
  }
}

void ImageReport::Warn(const std::string& warning) {
  if (style_ != ReportStyle::kQuiet) bar_.Print(absl::StrCat("upscale: warning: ", warning));
}

void ImageReport::Add(const ImageOutcome& outcome) {
  const bool failed = !outcome.status.ok();
  const std::string failure =
      failed ? absl::StrCat(NameOf(outcome.job.input), ": ", ErrorLine(outcome.status)) : "";
  {
    absl::MutexLock lock(&mutex_);
    if (outcome.skipped) {
      ++skipped_;
    } else if (failed) {
      failures_.push_back(failure);
      last_error_ = outcome.status;
      disconnected_ |= DetailsOf(outcome.status).origin == ErrorOrigin::kConnection;
    } else {
      ++done_;
    }
    if (style_ == ReportStyle::kJson) PrintJson(OutcomeJson(outcome));
  }
  // A folder's failures are listed at its end, where you cannot miss them.
  const bool now = !is_folder_ || style_ == ReportStyle::kVerbose || style_ == ReportStyle::kJson;
  if (failed) {
    if (now) bar_.Print(absl::StrCat("upscale: ", failure));
    return;
  }
  if (style_ != ReportStyle::kJson) {
    for (const std::string& warning : WarningsOf(outcome.result)) {
      bar_.Print(absl::StrCat("upscale: warning: ", NameOf(outcome.job.input), ": ", warning));
    }
  }
  if (style_ == ReportStyle::kVerbose || (style_ == ReportStyle::kNormal && !is_folder_)) {
    const bool verbose = style_ == ReportStyle::kVerbose;
    bar_.Print(outcome.skipped ? absl::StrCat(outcome.job.output, ": is there already")
                               : SuccessLine(outcome, verbose));
  }
}

void ImageReport::Retrying(const ImageJob& job, const absl::Status& error, absl::Duration wait) {
  if (style_ != ReportStyle::kVerbose) return;
  bar_.Print(absl::StrFormat("upscale: %s: %s; trying again in %.1f s", NameOf(job.input),
                             ErrorLine(error), absl::ToDoubleSeconds(wait)));
}

int ImageReport::Finish(int not_tried, bool interrupted) {
  absl::MutexLock lock(&mutex_);
  if (is_folder_ && style_ != ReportStyle::kJson) {
    if (style_ != ReportStyle::kQuiet || !failures_.empty()) {
      bar_.Print(absl::StrCat(
          done_, " upscaled, ", skipped_, " skipped, ", failures_.size(), " failed, ", not_tried,
          " not tried", left_out_ == 0 ? "" : absl::StrCat(", ", left_out_, " left out"),
          left_out_ > 0 && style_ != ReportStyle::kVerbose ? " (-v names them)" : ""));
    }
    if (!failures_.empty()) bar_.Print("Failed:");
    for (const std::string& failure : failures_) bar_.Print(absl::StrCat("  ", failure));
  }
  if (interrupted) return kExitInterrupted;
  if (failures_.empty()) return kExitOk;
  if (!is_folder_) return ExitCodeFor(last_error_);
  return disconnected_ ? kExitCannotConnect : kExitSomeFailed;
}

}  // namespace upscaled::client
