#include "client/cli/video_command.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/interrupt.h"
#include "client/image_io.h"
#include "client/video/film.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr char kVideoFooter[] = R"(
Examples:
  ffmpeg -i in.mkv -f yuv4mpegpipe - | upscale video -i - -o - |
    ffmpeg -i - -i in.mkv -map 0:v -map '1:a?' -c:a copy out.mkv
  ffmpeg -i in.mkv -f image2pipe -c:v png - | upscale video -i - -o - -m anime-2x |
    ffmpeg -f image2pipe -framerate 24 -c:v png -i - out.mkv

The input is YUV4MPEG2 (4:2:0, 4:2:2, 4:4:4 or mono of 8 to 16 bits, not interlaced), or PNG, PPM or PGM files put
together. The output is of the same kind. Each frame is the result of 'upscale image' on that frame; a frame equal to the
one before costs a comparison. Whole frames are written, in order. Colours are BT.601 up to 576 rows and BT.709 above,
unless --matrix says otherwise.

Exit status: 0 all done, 1 bad arguments, 2 cannot connect, 3 a call failed, 5 the input or the output failed,
130 interrupted.)";

struct VideoFlags {
  ConnectionFlags connection;
  UpscaleFlags upscale;
  std::string input, output;
  std::string matrix, range;
  std::optional<int> png_compression;
  FilmOptions film;
  bool quiet = false;

  void AddTo(CLI::App& command);
  FilmOptions ToOptions() const;
};

void VideoFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("-i,--input", input, "PATH", "Frames, or - for standard input")->required();
  add("-o,--output", output, "PATH", "File, or - for standard output")->required();
  upscale.AddTo(command);
  add("--frames-ahead", film.frames_ahead, "N",
      "Frames on their way at a time; memory grows with it")
      ->check(Between(1, 256))
      ->capture_default_str();
  add("--resume-at", film.resume_at, "N", "Leave out the first N frames, which are there already")
      ->check(Between<int64_t>(0, INT64_MAX));
  add("--matrix", matrix, "NAME", "Colours of YUV4MPEG2: 601, 709 or 2020; default: by the height")
      ->check(CLI::IsMember({"601", "709", "2020"}));
  add("--range", range, "NAME",
      "Samples of YUV4MPEG2: limited or full; default: as the stream says, else limited")
      ->check(CLI::IsMember({"limited", "full"}));
  add("--png-compression", png_compression, "N", "Of PNG frames, 0 (fast) to 9 (small)")
      ->check(Between(0, 9));
  command.add_flag("--quiet", quiet, "Only say what went wrong");
  connection.AddTo(command);
  connection.AddLocalTo(command);
  command.footer(kVideoFooter);
}

FilmOptions VideoFlags::ToOptions() const {
  FilmOptions options = film;
  options.upscale = upscale.ToProto();
  if (png_compression.has_value()) options.upscale.set_png_compression(*png_compression);
  if (!matrix.empty()) {
    options.reader.matrix = matrix == "601"   ? Matrix::kBt601
                            : matrix == "709" ? Matrix::kBt709
                                              : Matrix::kBt2020;
  }
  if (!range.empty()) options.reader.full_range = range == "full";
  return options;
}

// Tells on standard error how the film gets on: on a terminal once a second, at the end always.
class FilmReport {
 public:
  explicit FilmReport(bool quiet) : quiet_(quiet), is_terminal_(isatty(STDERR_FILENO) != 0) {}

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
    if (progress.repeated > 0)
      absl::StrAppend(&text, ", ", progress.repeated, " equal to the one before");
    return text;
  }

  const bool quiet_, is_terminal_;
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

absl::Status RunFilm(const VideoFlags& flags, ImageSource& source, ImageSink& sink,
                     FilmProgress& progress) {
  Interrupt interrupt;
  ASSIGN_OR_RETURN(const Connection connection, flags.connection.Connect(interrupt.token()));
  FilmReport report(flags.quiet);
  const absl::Status status = UpscaleFilm(
      *connection.service, flags.ToOptions(), source, sink,
      [&report](const FilmProgress& so_far) { report.Tell(so_far); }, progress, interrupt.token());
  report.Finish(progress);
  if (!status.ok() && !flags.quiet) {
    absl::FPrintF(stderr, "go on with --resume-at %d\n", flags.film.resume_at + progress.written);
  }
  return status;
}

absl::Status UpscaleVideo(const VideoFlags& flags) {
  if (flags.output == "-" && isatty(STDOUT_FILENO)) {
    return absl::InvalidArgumentError("-o - would write frames to the terminal");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source, OpenInput(flags.input));
  FilmProgress progress;
  if (flags.output == "-") {
    PipeSink sink(STDOUT_FILENO);
    return RunFilm(flags, *source, sink, progress);
  }
  ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(flags.output));
  const absl::Status status = RunFilm(flags, *source, sink, progress);
  // A film that failed leaves whole frames, with which another run goes on, or nothing.
  if (progress.written > 0) RETURN_IF_ERROR(sink.Commit());
  return status;
}

}  // namespace

void AddVideoCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VideoFlags>();
  CLI::App* command =
      app.add_subcommand("video", "Upscale the frames of a film, from pipe to pipe");
  flags->AddTo(*command);
  command->callback([flags, &exit_code] {
    const absl::Status status = UpscaleVideo(*flags);
    exit_code = status.ok() ? kExitOk : Fail(status);
  });
}

}  // namespace upscaled::client
