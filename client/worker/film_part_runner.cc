#include "client/worker/film_part_runner.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/image_io.h"
#include "client/video/ffmpeg.h"
#include "client/video/film.h"
#include "client/video/film_facts.h"
#include "client/video/yuv.h"
#include "client/worker/film_commands.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"
#include "engine/base/with_prefix.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

struct Pipe {
  UniqueFd output, input;  // for reading, for writing

  static absl::StatusOr<Pipe> Make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
};

// The place of a complete part.
fs::path PartPath(const fs::path& folder, int64_t number) {
  return folder / absl::StrFormat("part-%06d.nut", number);
}

absl::Status Sync(const fs::path& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.valid() && Synced(file.get())) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path.native()));
}

// A file there is complete, also after a power failure.
absl::Status Rename(const fs::path& from, const fs::path& to) {
  RETURN_IF_ERROR(Sync(from));
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot write ", to.native()));
  Sync(to.parent_path()).IgnoreError();  // some folders may not be read
  return absl::OkStatus();
}

// The failure of a machine rather than of the film: its disk, its memory, its codecs.
absl::Status OfMachine(absl::Status status) {
  return absl::IsInvalidArgument(status) ? absl::UnavailableError(status.message()) : status;
}

class FilmPartRun {
 public:
  FilmPartRun(const server::FilmPart& part, int source, const std::string& output)
      : part_(part), source_(source), output_(output), folder_(server::FilmFolder(output, part)) {}

  bool IsJoined() const { return !Exists(folder_); }
  // A worker without the submitter's folders finds neither parts nor result.
  absl::Status CheckResult() const {
    if (Exists(output_)) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("here is neither ", output_, " nor the folder of its parts"));
  }
  bool IsThere(int64_t number) const { return Exists(PartPath(folder_, number)); }
  bool AreAllThere() const {
    for (int64_t i = 0; i < part_.parts(); ++i)
      if (!IsThere(i)) return false;
    return true;
  }

  // Decodes, upscales and encodes the part's frames.
  absl::Status Compute(Service& service, const v1::UpscaleOptions& options, const VideoCodec& codec,
                       const std::function<void(int64_t)>& on_frame, std::stop_token stop) const {
    ASSIGN_OR_RETURN(Pipe frames, Pipe::Make());
    ASSIGN_OR_RETURN(Pipe results, Pipe::Make());
    const fs::path draft = Draft(".nut");
    ASSIGN_OR_RETURN(Ffmpeg decoder, Ffmpeg::Start(DecodePart(part_), {.output = frames.input.get(),
                                                                       .source = source_}));
    frames.input = UniqueFd();
    ASSIGN_OR_RETURN(Ffmpeg encoder, Ffmpeg::Start(EncodePart(part_, codec, draft.native()),
                                                   {.input = results.output.get()}));
    results.output = UniqueFd();
    PipeSource source(frames.output.get(), /*max_replay_bytes=*/0);
    PipeSink sink(results.input.get());
    FilmOptions film{.upscale = options, .reader = {.matrix = MatrixNamed(part_.matrix)}};
    FilmProgress progress;
    absl::Status status;
    {
      const std::stop_callback kill(stop, [&] { encoder.Kill(); });  // the sink may wait for it
      status = UpscaleFilm(
          service, film, source, sink,
          [&](const FilmProgress& so_far) { on_frame(so_far.written); }, progress, stop);
    }
    results.input = UniqueFd();
    if (!status.ok()) return WithWords(std::move(status), decoder, encoder);
    RETURN_IF_ERROR(decoder.Wait());
    RETURN_IF_ERROR(OfMachine(encoder.Wait()));
    if (progress.written != part_.count(part_.number)) {
      return absl::InvalidArgumentError(absl::StrCat("the film gave ", progress.written,
                                                     " frames from frame ", part_.first_frame(),
                                                     " on, must be ", part_.count(part_.number)));
    }
    return Rename(draft, PartPath(folder_, part_.number));
  }

  absl::Status Join(std::stop_token stop) const {
    ASSIGN_OR_RETURN(const Container container, ContainerOf(output_));
    const absl::StatusOr<std::vector<FilmStream>> streams = ReadFilmStreams(source_);
    if (!streams.ok()) return OfMachine(streams.status());
    const fs::path list = Draft(".txt"), joined = Draft(EndingOf(container));
    std::ofstream lines(list);
    for (int64_t i = 0; i < part_.parts(); ++i) {
      lines << absl::StrFormat("file %s\nduration %.9f\n", PartPath(folder_, i).filename().native(),
                               part_.seconds(static_cast<double>(part_.count(i))));
    }
    lines.close();
    if (!lines) return absl::UnavailableError(absl::StrCat("cannot write ", list.native()));
    RETURN_IF_ERROR(
        OfMachine(RunFfmpeg(JoinParts(part_, list.native(), *streams, container, joined.native()),
                            {.source = source_}, std::move(stop))));
    RETURN_IF_ERROR(Rename(joined, output_));
    std::error_code ignored;  // the film is there
    fs::remove_all(folder_, ignored);
    return absl::OkStatus();
  }

 private:
  static bool Exists(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
  }

  // A new name in the folder. It goes with the folder.
  fs::path Draft(const std::string& extension) const {
    return folder_ / absl::StrCat("draft-", RandomUuid(), extension);
  }

  // An error, and a process's reason for it.
  static absl::Status WithWords(absl::Status status, const Ffmpeg& decoder, const Ffmpeg& encoder) {
    for (const Ffmpeg* const process : {&decoder, &encoder}) {
      const std::string words = process->LastWords();
      if (!words.empty()) return WithPrefix(absl::StrCat("ffmpeg: ", words, ": "), status);
    }
    return status;
  }

  const server::FilmPart& part_;
  const int source_;
  const std::string& output_;
  const fs::path folder_;
};

}  // namespace

absl::Status RunFilmPart(Service& service, const v1::UpscaleOptions& options,
                         const server::FilmPart& part, int source, const std::string& output,
                         const std::function<void(int64_t)>& on_frame, std::stop_token stop) {
  const VideoCodec* const codec = FindVideoCodec(part.codec);
  if (codec == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("the codec ", part.codec, " is not known"));
  const FilmPartRun run(part, source, output);
  if (run.IsJoined()) return run.CheckResult();
  if (!run.IsThere(part.number)) {
    RETURN_IF_ERROR(run.Compute(service, options, *codec, on_frame, stop));
  }
  if (!run.AreAllThere()) return absl::OkStatus();
  const absl::Status joined = run.Join(std::move(stop));
  // Another worker may have taken the parts away under this one's hands, since it was first.
  return run.IsJoined() ? run.CheckResult() : joined;
}

}  // namespace upscaled::client
