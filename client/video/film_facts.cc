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
#include "absl/strings/strip.h"
#include "client/video/ffmpeg.h"
#include "client/video/yuv.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

// A frame may come this much of a frame's time early or late: containers round to milliseconds.
constexpr double kMaxUneven = 0.25;

// Entries of `streams`, selected by ffmpeg, and of the file.
std::vector<std::string> Probe(const std::string& input, const std::string& streams,
                               const std::string& entries, const std::string& form) {
  std::vector<std::string> command = {"ffprobe",    "-v",
                                      "error",      "-fflags",
                                      "+genpts",    "-protocol_whitelist",
                                      "file",       "-format_whitelist",
                                      kFilmFormats, "-show_entries",
                                      entries,      "-of",
                                      form,         "-i",
                                      input};
  if (!streams.empty()) command.insert(command.begin() + 1, {"-select_streams", streams});
  return command;
}

using Facts = std::map<absl::string_view, absl::string_view>;

// The file's own word; "" if it has none.
std::string Known(const Facts& facts, absl::string_view name) {
  const auto fact = facts.find(name);
  const bool is_known = fact != facts.end() && fact->second != "unknown" &&
                        fact->second != "reserved" && fact->second != "N/A";
  return is_known ? std::string(fact->second) : "";
}

// FrameReader's samples of YUV4MPEG2.
absl::Status CheckPixelFormat(const std::string& name) {
  absl::string_view rest = name;
  bool known = absl::ConsumePrefix(&rest, "gray");
  if (!known && (absl::ConsumePrefix(&rest, "yuvj") || absl::ConsumePrefix(&rest, "yuv"))) {
    known = absl::ConsumePrefix(&rest, "420p") || absl::ConsumePrefix(&rest, "422p") ||
            absl::ConsumePrefix(&rest, "444p");
  }
  constexpr absl::string_view kDepths[] = {"", "9le", "10le", "12le", "14le", "16le"};
  if (known && std::ranges::count(kDepths, rest) > 0 && name != "gray14le") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the film's pixels are ", name,
                   "; yuv420p, yuv422p, yuv444p and gray of 8 to 16 bits are read (ffmpeg -pix_fmt "
                   "yuv444p -c:v ffv1)"));
}

absl::Status CheckNotInterlaced(const Facts& facts) {
  const std::string order = Known(facts, "field_order");
  if (order.empty() || order == "progressive") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the film is interlaced (field order ", order,
                                                 "); deinterlace it first (ffmpeg -vf bwdif)"));
}

absl::StatusOr<std::string> MatrixOf(const Facts& facts, int height_px) {
  const std::string space = Known(facts, "color_space");
  if (space == "bt709") return "709";
  if (space == "bt2020nc") return "2020";
  if (space == "smpte170m" || space == "bt470bg") return "601";
  if (space.empty()) return NameOf(MatrixByHeight(height_px));
  return absl::InvalidArgumentError(absl::StrCat(
      "the film's colours are ", space, "; smpte170m, bt470bg, bt709 and bt2020nc are read"));
}

absl::StatusOr<std::vector<double>> ParseTimes(const std::string& text) {
  std::vector<double> times;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    // Side data puts commas behind the time and the flags.
    const std::vector<absl::string_view> values = absl::StrSplit(line, ',');
    // A cut known to the edit list only: such frames are decoded, but not shown.
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
  Facts values;
  for (const absl::string_view line : absl::StrSplit(facts, '\n', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> fact =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    values.insert(fact);
  }
  RETURN_IF_ERROR(CheckNotInterlaced(values));
  FilmFacts film{.pixel_format = Known(values, "pix_fmt"),
                 .primaries = Known(values, "color_primaries"),
                 .transfer = Known(values, "color_transfer"),
                 .range = Known(values, "color_range")};
  if (!absl::SimpleAtoi(Known(values, "width"), &film.width_px) || film.width_px < 1 ||
      !absl::SimpleAtoi(Known(values, "height"), &film.height_px) || film.height_px < 1)
    return absl::InvalidArgumentError("the film has no width or no height");
  const std::pair<absl::string_view, absl::string_view> rate =
      absl::StrSplit(values["r_frame_rate"], absl::MaxSplits('/', 1));
  if (!absl::SimpleAtoi(rate.first, &film.rate) || !absl::SimpleAtoi(rate.second, &film.rate_by) ||
      film.rate < 1 || film.rate_by < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the film's rate is \"", values["r_frame_rate"],
                                                   "\", must be frames/seconds"));
  }
  ASSIGN_OR_RETURN(const std::vector<double> all, ParseTimes(times));
  RETURN_IF_ERROR(CheckPixelFormat(film.pixel_format));
  ASSIGN_OR_RETURN(film.matrix, MatrixOf(values, film.height_px));
  RETURN_IF_ERROR(
      CheckEven(all, static_cast<double>(film.rate) / static_cast<double>(film.rate_by)));
  film.frames = static_cast<int64_t>(all.size());
  double file_start_s = 0;  // "N/A" of some formats
  if (!absl::SimpleAtod(values["start_time"], &file_start_s)) file_start_s = 0;
  film.start_s = all[0] - file_start_s;
  return film;
}

absl::StatusOr<FilmFacts> ReadFilmFacts(const std::string& path) {
  const std::string input = "file:" + path;
  ASSIGN_OR_RETURN(
      const std::string facts,
      ReadFfmpeg(Probe(input, "V:0",
                       "stream=r_frame_rate,width,height,pix_fmt,field_order,color_space,"
                       "color_primaries,color_transfer,color_range:format=start_time",
                       "default=nw=1")));
  ASSIGN_OR_RETURN(const std::string times,
                   ReadFfmpeg(Probe(input, "V:0", "packet=pts_time,flags", "csv=p=0")));
  return ParseFilmFacts(facts, times);
}

absl::StatusOr<std::vector<FilmStream>> ReadFilmStreams(int source) {
  ASSIGN_OR_RETURN(
      const std::string text,
      ReadFfmpeg(
          Probe(Ffmpeg::kSource, "",
                "stream=index,codec_name,codec_type:stream_disposition=attached_pic", "csv=p=0"),
          source));
  std::vector<FilmStream> streams;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    const std::vector<std::string> values = absl::StrSplit(line, ',');
    FilmStream& stream = streams.emplace_back();
    if (values.size() != 4 || !absl::SimpleAtoi(values[0], &stream.number))
      return absl::InvalidArgumentError(absl::StrCat("ffprobe describes a stream as ", line));
    stream.codec = values[1];
    stream.type = values[2];
    stream.is_picture = values[3] == "1";
  }
  return streams;
}

}  // namespace upscaled::client
