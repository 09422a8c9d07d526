#include "client/video/film_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/video/ffmpeg.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

// A frame may come this much of a frame's time early or late: containers round to milliseconds.
constexpr double kMaxUneven = 0.25;

std::vector<std::string> Probe(const std::string& path, const std::string& entries,
                               const std::string& form) {
  return {"ffprobe",     "-v",
          "error",       "-fflags",
          "+genpts",     "-protocol_whitelist",
          "file",        "-format_whitelist",
          kFilmFormats,  "-select_streams",
          "V:0",         "-show_entries",
          entries,       "-of",
          form,          "-i",
          "file:" + path};
}

std::string MatrixOf(absl::string_view color_space) {
  if (color_space == "bt709") return "709";
  if (color_space == "bt2020nc") return "2020";
  return color_space == "smpte170m" || color_space == "bt470bg" ? "601" : "";
}

absl::StatusOr<std::vector<double>> ParseTimes(const std::string& text) {
  std::vector<double> times;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    // Side data puts commas behind the time and the flags.
    const std::vector<absl::string_view> values = absl::StrSplit(line, ',');
    // A cut that only the edit list knows: such frames are decoded, but not shown.
    if (values.size() > 1 && absl::StrContains(values[1], 'D')) continue;
    if (!absl::SimpleAtod(values[0], &times.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the film has a frame with the time ", values[0]));
    }
  }
  if (times.empty()) return absl::InvalidArgumentError("the file has no frames of a film");
  std::ranges::sort(times);
  return times;
}

absl::Status CheckEven(const std::vector<double>& times, double rate) {
  for (size_t i = 0; i < times.size(); ++i) {
    const double even = times[0] + static_cast<double>(i) / rate;
    if (std::abs(times[i] - even) * rate <= kMaxUneven) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "frame %d comes at %.3f s, must be at %.3f s for %.5g frames a second; make the rate even "
        "first (ffmpeg -vf fps=24)",
        i, times[i], even, rate));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FilmFacts> ParseFilmFacts(const std::string& facts, const std::string& times) {
  std::map<absl::string_view, absl::string_view> values;
  for (const absl::string_view line : absl::StrSplit(facts, '\n', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> fact =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    values.insert(fact);
  }
  FilmFacts film{.matrix = MatrixOf(values["color_space"])};
  const std::pair<absl::string_view, absl::string_view> rate =
      absl::StrSplit(values["r_frame_rate"], absl::MaxSplits('/', 1));
  if (!absl::SimpleAtoi(rate.first, &film.rate) || !absl::SimpleAtoi(rate.second, &film.rate_by) ||
      film.rate < 1 || film.rate_by < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the film's rate is \"", values["r_frame_rate"],
                                                   "\", must be frames/seconds"));
  }
  ASSIGN_OR_RETURN(const std::vector<double> all, ParseTimes(times));
  RETURN_IF_ERROR(
      CheckEven(all, static_cast<double>(film.rate) / static_cast<double>(film.rate_by)));
  film.frames = static_cast<int64_t>(all.size());
  double file_start_s = 0;  // "N/A" of some formats
  if (!absl::SimpleAtod(values["start_time"], &file_start_s)) file_start_s = 0;
  film.start_s = all[0] - file_start_s;
  return film;
}

absl::StatusOr<FilmFacts> ReadFilmFacts(const std::string& path) {
  ASSIGN_OR_RETURN(
      const std::string facts,
      ReadFfmpeg(Probe(path, "stream=r_frame_rate,color_space:format=start_time", "default=nw=1")));
  ASSIGN_OR_RETURN(const std::string times,
                   ReadFfmpeg(Probe(path, "packet=pts_time,flags", "csv=p=0")));
  return ParseFilmFacts(facts, times);
}

}  // namespace upscaled::client
