#include "client/video/ffmpeg.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr off_t kWordsBytes = 2000;  // at the end of standard error

// The files and signals of a process.
class SpawnSettings {
 public:
  SpawnSettings(const Ffmpeg::Files& files, int errors) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    Place(files.input, STDIN_FILENO, O_RDONLY);
    Place(files.output, STDOUT_FILENO, O_WRONLY);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    if (files.source >= 0) posix_spawn_file_actions_adddup2(&actions, files.source, 3);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

 private:
  void Place(int file, int as, int mode) {
    if (file >= 0) {
      posix_spawn_file_actions_adddup2(&actions, file, as);
    } else {
      posix_spawn_file_actions_addopen(&actions, as, "/dev/null", mode, 0);
    }
  }
};

}  // namespace

absl::StatusOr<Ffmpeg> Ffmpeg::Start(std::vector<std::string> command, const Files& files) {
  UniqueFd errors(memfd_create("errors", MFD_CLOEXEC));
  if (!errors.valid()) return absl::ErrnoToStatus(errno, "cannot make a file in memory");
  const SpawnSettings settings(files, errors.get());
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &settings.actions, &settings.attributes,
                                 arguments.data(), environ);
  if (error == ENOENT) {
    return absl::FailedPreconditionError(absl::StrCat(
        command[0], " is not installed, and films as jobs need it (apt install ffmpeg)"));
  }
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", command[0]));
  return Ffmpeg(command[0], pid, std::move(errors));
}

Ffmpeg::Ffmpeg(Ffmpeg&& other) noexcept
    : program_(std::move(other.program_)),
      pid_(std::exchange(other.pid_, -1)),
      errors_(std::move(other.errors_)) {}

Ffmpeg::~Ffmpeg() {
  if (pid_ < 0) return;
  Kill();
  waitpid(pid_, nullptr, 0);
}

void Ffmpeg::Kill() const {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

void Ffmpeg::AwaitEnd() const {
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

absl::Status Ffmpeg::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (!WIFEXITED(status)) {
    return absl::UnavailableError(
        absl::StrCat(program_, " ended by signal ", WTERMSIG(status), ": ", LastWords()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(program_, " ended with exit status ", WEXITSTATUS(status), ": ", LastWords()));
}

std::string Ffmpeg::LastWords() const {
  const off_t end = lseek(errors_.get(), 0, SEEK_END);
  std::string words(static_cast<size_t>(std::clamp<off_t>(end, 0, kWordsBytes)), '\0');
  const ssize_t got =
      pread(errors_.get(), words.data(), words.size(), end - static_cast<off_t>(words.size()));
  words.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(words), '\n');
  return lines.back();
}

absl::Status RunFfmpeg(std::vector<std::string> command, const Ffmpeg::Files& files,
                       std::stop_token stop) {
  ASSIGN_OR_RETURN(Ffmpeg process, Ffmpeg::Start(std::move(command), files));
  {
    const std::stop_callback kill(stop, [&process] { process.Kill(); });
    process.AwaitEnd();
  }
  const absl::Status status = process.Wait();
  return stop.stop_requested() ? absl::CancelledError("cancelled") : status;
}

absl::StatusOr<std::string> ReadFfmpeg(std::vector<std::string> command, int source) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  UniqueFd output(ends[0]), input(ends[1]);
  ASSIGN_OR_RETURN(Ffmpeg process,
                   Ffmpeg::Start(std::move(command), {.output = input.get(), .source = source}));
  input = UniqueFd();
  std::string text;
  std::array<char, 65536> part;
  for (ssize_t got; (got = read(output.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(got));
  RETURN_IF_ERROR(process.Wait());
  return text;
}

}  // namespace upscaled::client
