#include "server/sandbox/worker_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// There is no wait for a process with its socket closed to live on.
constexpr absl::Duration kEndTimeout = absl::Milliseconds(200);
constexpr absl::Duration kEndPoll = absl::Milliseconds(1);
// For the next bytes on the socket: longer than a worker's CPU time (see cage.cc).
constexpr absl::Duration kAnswerTimeout = absl::Minutes(10);

// posix_spawn's settings, freed.
struct SpawnSettings {
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// The server blocks signals, but they must end a worker. A Ctrl-C is only for the server.
void OwnSignals(posix_spawnattr_t* attributes) {
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(attributes, &signals);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setflags(attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

absl::Status CannotStart(const std::filesystem::path& program, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot start ", program.string(), ": ", std::strerror(error)));
}

std::string Describe(int status) {
  if (!WIFSIGNALED(status)) return absl::StrCat("exit code ", WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  return absl::StrCat("signal ", number, " (", sigabbrev_np(number), ")");
}

}  // namespace

absl::StatusOr<SocketPair> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(
        absl::StrCat("there is no socket for a worker: ", std::strerror(errno)));
  }
  SocketPair pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
  const timeval patience{.tv_sec = absl::ToInt64Seconds(kAnswerTimeout)};
  setsockopt(pair.own.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(pair.own.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  return pair;
}

absl::StatusOr<WorkerProcess> WorkerProcess::Start(const std::filesystem::path& program,
                                                   std::vector<std::string> arguments) {
  ASSIGN_OR_RETURN(SocketPair sockets, MakeSocketPair());
  SpawnSettings settings;
  posix_spawn_file_actions_adddup2(&settings.actions, sockets.its.get(), STDIN_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&settings.actions, STDIN_FILENO + 1);
  OwnSignals(&settings.attributes);
  arguments.insert(arguments.begin(), program.filename().string());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* const environment[] = {nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &settings.actions, &settings.attributes,
                                argv.data(), environment);
  if (error != 0) return CannotStart(program, error);
  return WorkerProcess(std::move(sockets.own), pid);
}

void WorkerProcess::Signal(int signal) {
  if (pid_ >= 0) kill(pid_, signal);
}

void WorkerProcess::Pause() { Signal(SIGSTOP); }

void WorkerProcess::Resume() { Signal(SIGCONT); }

absl::Duration WorkerProcess::Stop() {
  if (pid_ < 0) return cpu_time_;
  Signal(SIGKILL);
  while (Wait(nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return cpu_time_;
}

pid_t WorkerProcess::Wait(int* status, int options) {
  rusage usage{};
  const pid_t ended = wait4(pid_, status, options, &usage);
  if (ended > 0) {
    cpu_time_ =
        absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
  }
  return ended;
}

WorkerProcess::End WorkerProcess::AwaitEnd() {
  if (pid_ < 0) return {.text = "it had ended before"};
  int status = 0;
  pid_t ended = 0;
  absl::Duration waited;
  while ((ended = Wait(&status, WNOHANG)) == 0) {
    if (waited >= kEndTimeout) {
      Signal(SIGKILL);  // Stop takes its end
      return {.text = "it said nothing any more"};
    }
    absl::SleepFor(kEndPoll);
    waited += kEndPoll;
  }
  if (ended < 0) return {.text = "its end is unknown"};
  pid_ = -1;
  return {.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, .text = Describe(status)};
}

}  // namespace upscaled::server
