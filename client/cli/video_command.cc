#include "client/cli/video_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/find_images.h"
#include "client/cli/flags.h"
#include "client/cli/interrupt.h"
#include "client/error_details.h"
#include "client/image_io.h"
#include "client/video/film.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

constexpr char kVideoFooter[] = R"(
Examples:
  ffmpeg -i in.mkv -f yuv4mpegpipe - | upscale video -i - -o - |
    ffmpeg -i - -i in.mkv -map 0:v -map '1:a?' -c:a copy out.mkv
  ffmpeg -i in.mkv -f image2pipe -c:v png - | upscale video -i - -o - -m anime-2x |
    ffmpeg -f image2pipe -framerate 24 -c:v png -i - out.mkv

The input is YUV4MPEG2 (4:2:0, 4:2:2, 4:4:4 or mono of 8 to 16 bits, not interlaced), PNG, PPM or PGM files put together,
or with --raw frames without any header. The output is of the same kind. Each frame is the result of 'upscale image' on
that frame. No more is computed of it than changed since the frame before; a frame equal to the one before costs a
comparison. Of PNG frames only equal ones are found. Whole frames are written, in order. Colours are BT.601 up to 576 rows
and BT.709 above, unless --matrix says otherwise.

Exit status: 0 all done, 1 bad arguments, 2 cannot connect, 3 a call failed, 5 the input or the output failed,
130 interrupted.)";

// The value of --raw.
struct RawFilm {
  FilmFormat format;
  double rate = 0;  // frames a second; 0: not given
};

absl::StatusOr<double> ParseRate(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  double frames = 0, seconds = 1;
  if (parts.size() > 2 || !absl::SimpleAtod(parts[0], &frames) ||
      (parts.size() == 2 && !absl::SimpleAtod(parts[1], &seconds)) ||
      !(frames / seconds > 0 && frames / seconds <= 1e6)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rate ", text, " is none, such as 24 or 24000/1001"));
  }
  return frames / seconds;
}

absl::StatusOr<RawFilm> ParseRaw(const std::string& value) {
  const std::vector<absl::string_view> parts = absl::StrSplit(value, ':');
  const std::pair<absl::string_view, absl::string_view> sides =
      absl::StrSplit(parts[0], absl::MaxSplits('x', 1));
  Size size;
  if (parts.size() < 2 || parts.size() > 3 || !absl::SimpleAtoi(sides.first, &size.width) ||
      !absl::SimpleAtoi(sides.second, &size.height) ||
      parts[0] != absl::StrCat(size.width, "x", size.height)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--raw ", value, " is no WxH:FORMAT[:RATE], such as 640x360:yuv420p:24"));
  }
  RawFilm film;
  ASSIGN_OR_RETURN(film.format, RawFormat(size, parts[1]));
  if (parts.size() == 3) {
    ASSIGN_OR_RETURN(film.rate, ParseRate(parts[2]));
  }
  return film;
}

struct VideoFlags {
  ConnectionFlags connection;
  UpscaleFlags upscale;
  std::string input, output;
  std::string matrix, range, raw, index, chroma = "network";
  int64_t frames = 0;  // of the whole film; 0: not known
  std::optional<int> png_compression;
  FilmOptions film;
  bool quiet = false;

  void AddTo(CLI::App& command);
  absl::StatusOr<FilmOptions> ToOptions() const;
};

void VideoFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("-i,--input", input, "PATH", "Frames, or - for standard input")->required();
  add("-o,--output", output, "PATH", "File, or - for standard output")->required();
  upscale.AddTo(command);
  command.get_option("--noise")->description(
      "Noise level to remove: -1 none, 0 weak to 3 strong; default: none");
  add("--frames-ahead", film.frames_ahead, "N",
      "Frames that are read and not yet written, at most; memory grows with it")
      ->check(Between(1, 256))
      ->capture_default_str();
  add("--resume-at", film.resume_at, "N", "Leave out the first N frames, which are there already")
      ->check(Between<int64_t>(0, INT64_MAX));
  add("--frames", frames, "N", "Frames of the film, to tell the time that is left")
      ->check(Between<int64_t>(1, INT64_MAX));
  add("--index", index, "PATH",
      "Write a line for each frame: its number, and the output's bytes up to its end");
  add("--raw", raw, "WxH:FORMAT[:RATE]",
      "The input has no header, such as 1920x1080:yuv420p10le:24000/1001")
      ->check(
          [](const std::string& value) { return std::string(ParseRaw(value).status().message()); });
  add("--matrix", matrix, "NAME", "Colours of YUV4MPEG2: 601, 709 or 2020; default: by the height")
      ->check(CLI::IsMember({"601", "709", "2020"}));
  add("--range", range, "NAME",
      "Samples of YUV: limited or full; default: as the stream or its format says, else limited")
      ->check(CLI::IsMember({"limited", "full"}));
  add("--chroma", chroma, "WAY",
      "network: as RGB with luma; resample: only luma goes through the network, and chroma is "
      "enlarged by a cubic")
      ->check(CLI::IsMember({"network", "resample"}))
      ->capture_default_str();
  add("--hold-noise", film.hold_noise, "N",
      "Blocks of 8x8 px that differ by N levels of 255 at most from the frame before stay as they "
      "were: noise costs nothing there, but faint motion and slow fades stop until they exceed N")
      ->check(Between(0, 64));
  add("--png-compression", png_compression, "N", "Of PNG frames, 0 (fast) to 9 (small)")
      ->check(Between(0, 9));
  command.add_flag("--quiet", quiet, "Only say what went wrong");
  connection.AddTo(command);
  connection.AddLocalTo(command);
  connection.AddPriorityTo(command, "background");
  command.footer(kVideoFooter);
}

absl::StatusOr<FilmOptions> VideoFlags::ToOptions() const {
  FilmOptions options = film;
  if (!raw.empty()) {
    ASSIGN_OR_RETURN(const RawFilm parsed, ParseRaw(raw));
    options.reader.raw = parsed.format;
  }
  RETURN_IF_ERROR(upscale.CheckForFilm());
  options.upscale = upscale.ToProto();
  if (png_compression.has_value()) options.upscale.set_png_compression(*png_compression);
  options.reader.matrix = MatrixNamed(matrix);
  if (!range.empty()) options.reader.full_range = range == "full";
  options.reader.resamples_chroma = chroma == "resample";
  return options;
}

// Tells on standard error how the film gets on: on a terminal once a second, at the end always.
class FilmReport {
 public:
  // `frames`: that will be written; 0: not known. `rate`: of the film; 0: not known.
  FilmReport(bool quiet, int64_t frames, double rate)
      : quiet_(quiet), is_terminal_(isatty(STDERR_FILENO) != 0), frames_(frames), rate_(rate) {}

  void Tell(const FilmProgress& progress) {
    const absl::Time now = absl::Now();
    if (quiet_ || !is_terminal_ || now - told_ < absl::Seconds(1)) return;
    told_ = now;
    absl::FPrintF(stderr, "\r%s\x1b[K", Text(progress));
  }
  void Finish(const FilmProgress& progress) const {
    if (!quiet_) absl::FPrintF(stderr, "%s%s\n", is_terminal_ ? "\r\x1b[K" : "", Text(progress));
  }

 private:
  std::string Text(const FilmProgress& progress) const {
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin_);
    std::string text = absl::StrFormat("%d frame%s, %.2f a second", progress.written,
                                       progress.written == 1 ? "" : "s",
                                       static_cast<double>(progress.written) / seconds);
    if (rate_ > 0)
      absl::StrAppendFormat(&text, ", %.1f s of film",
                            static_cast<double>(progress.written) / rate_);
    if (progress.repeated > 0)
      absl::StrAppend(&text, ", ", progress.repeated, " equal to the one before");
    if (progress.unchanged_px > 0)
      absl::StrAppendFormat(&text, ", %.0f %% of all pixels did not change",
                            100.0 * static_cast<double>(progress.unchanged_px) /
                                static_cast<double>(progress.source_px));
    const int64_t left = frames_ - progress.written;
    if (left > 0 && progress.written > 0) {
      const double seconds_left =
          seconds * static_cast<double>(left) / static_cast<double>(progress.written);
      absl::StrAppend(&text, ", ", absl::FormatDuration(absl::Seconds(std::ceil(seconds_left))),
                      " left");
    }
    return text;
  }

  const bool quiet_, is_terminal_;
  const int64_t frames_;
  const double rate_;
  const absl::Time begin_ = absl::Now();
  absl::Time told_ = begin_;
};

absl::StatusOr<std::unique_ptr<ImageSource>> OpenInput(const std::string& path) {
  if (path != "-") return OpenSource(path);
  if (isatty(STDIN_FILENO)) {
    return absl::InvalidArgumentError("-i - would read frames from the terminal");
  }
  return std::make_unique<PipeSource>(STDIN_FILENO, /*max_replay_bytes=*/0);
}

// A line for each written frame: its number, and the output's bytes up to its end.
class FrameIndex {
 public:
  // "": no index is written. UNAVAILABLE if the file cannot be created.
  static absl::StatusOr<FrameIndex> Create(const std::string& path) {
    FrameIndex index;
    if (path.empty()) return index;
    index.path_ = path;
    index.file_.reset(std::fopen(path.c_str(), "we"));
    if (index.file_ == nullptr) return absl::ErrnoToStatus(errno, path);
    return index;
  }

  void Add(int64_t number, int64_t bytes) {
    if (file_ == nullptr) return;
    std::fprintf(file_.get(), "%lld %lld\n", static_cast<long long>(number),
                 static_cast<long long>(bytes));
    std::fflush(file_.get());  // a killed film's index is of use, too
  }
  // UNAVAILABLE if a line could not be written.
  absl::Status status() const {
    if (file_ == nullptr || std::ferror(file_.get()) == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path_, ": the frame index was not written whole"));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

absl::Status RunFilm(const VideoFlags& flags, ImageSource& source, ImageSink& sink,
                     FilmProgress& progress) {
  ASSIGN_OR_RETURN(const FilmOptions options, flags.ToOptions());
  const double rate = flags.raw.empty() ? 0 : ParseRaw(flags.raw)->rate;
  ASSIGN_OR_RETURN(FrameIndex index, FrameIndex::Create(flags.index));
  Interrupt interrupt;
  ASSIGN_OR_RETURN(const Connection connection, flags.connection.Connect(interrupt.token()));
  const int64_t resume_at = options.resume_at;
  FilmReport report(flags.quiet, flags.frames - resume_at, rate);
  absl::Status status = UpscaleFilm(
      *connection.service, options, source, sink,
      [&](const FilmProgress& so_far) {
        index.Add(resume_at + so_far.written - 1, so_far.bytes);
        report.Tell(so_far);
      },
      progress, interrupt.token());
  // A film that cannot be read is no wrong argument.
  if (absl::IsInvalidArgument(status) && DetailsOf(status).origin == ErrorOrigin::kLocal)
    status = absl::FailedPreconditionError(status.message());
  status.Update(index.status());
  report.Finish(progress);
  if (!status.ok() && !flags.quiet) {
    absl::FPrintF(stderr, "go on with --resume-at %d\n", flags.film.resume_at + progress.written);
  }
  return status;
}

// "": no path.
absl::Status CheckApart(const std::string& a, const std::string& b, const char* what) {
  if (a.empty() || b.empty()) return absl::OkStatus();
  std::error_code ignored;
  const bool is_one = fs::is_regular_file(b, ignored)
                          ? IsSamePlace(a, b)
                          : !fs::exists(b, ignored) && fs::weakly_canonical(a, ignored) ==
                                                           fs::weakly_canonical(b, ignored);
  if (!is_one) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " are the same: ", b));
}

// Before anything is opened: a film and its index must not replace each other or the source.
absl::Status CheckPlaces(const VideoFlags& flags) {
  const std::string input = flags.input == "-" ? "/dev/stdin" : flags.input;
  const std::string output = flags.output == "-" ? "" : flags.output;
  RETURN_IF_ERROR(CheckApart(input, output, "input and output"));
  RETURN_IF_ERROR(CheckApart(input, flags.index, "input and index"));
  RETURN_IF_ERROR(CheckApart(output, flags.index, "output and index"));
  constexpr const char* kContainers[] = {".mp4", ".mkv", ".mov", ".webm", ".avi",
                                         ".m4v", ".ts",  ".mpg", ".gif"};
  const std::string ending = absl::AsciiStrToLower(fs::path(output).extension().native());
  if (std::ranges::count(kContainers, ending) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("frames are written as they came, not as ", ending,
                                                 "; pipe them into ffmpeg: ", "-o - | ffmpeg -i - ",
                                                 output));
}

absl::Status UpscaleVideo(const VideoFlags& flags) {
  if (flags.output == "-" && isatty(STDOUT_FILENO)) {
    return absl::InvalidArgumentError("-o - would write frames to the terminal");
  }
  RETURN_IF_ERROR(CheckPlaces(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source, OpenInput(flags.input));
  FilmProgress progress;
  if (flags.output == "-") {
    PipeSink sink(STDOUT_FILENO);
    return RunFilm(flags, *source, sink, progress);
  }
  ASSIGN_OR_RETURN(const UniqueFd device, OpenDevice(flags.output));
  if (device.valid()) {
    PipeSink sink(device.get());
    return RunFilm(flags, *source, sink, progress);
  }
  ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(flags.output));
  const absl::Status status = RunFilm(flags, *source, sink, progress);
  // A failed film leaves whole frames for another run to go on with, or nothing.
  if (progress.written > 0) RETURN_IF_ERROR(sink.Commit());
  return status;
}

}  // namespace

void AddVideoCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VideoFlags>();
  CLI::App* command = app.add_subcommand("video", kVideoDescription);
  flags->AddTo(*command);
  command->callback([flags, &exit_code] {
    const absl::Status status = UpscaleVideo(*flags);
    exit_code = status.ok() ? kExitOk : Fail(status);
  });
}

}  // namespace upscaled::client
