// upscaled: the server's process.
//
// Exit codes: 0 when a signal has stopped it, after the drain; 2 when it cannot start as asked; 3
// (ForcedExit::kExitCode) when the drain hangs beyond --drain-timeout and a grace of 4 s; 4 when a
// device does not answer, and none is left or work hangs in it, after the same drain; 128 + the
// signal when that has killed it.
//
// Signals: SIGTERM and SIGINT drain, a second one kills; SIGHUP reloads models, certificates and
// keys, and opens the audit log again; SIGQUIT kills with a core dump, as everywhere. SIGUSR1
// and SIGUSR2, which other servers know for their logs, are ignored, and so is SIGPIPE.

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/base/timer.h"
#include "server/config/config.h"
#include "server/identity/keys_command.h"
#include "server/lifecycle/forced_exit.h"
#include "server/lifecycle/server.h"
#include "server/lifecycle/service_manager.h"
#include "server/telemetry/fd_sink.h"
#include "server/telemetry/logger.h"

extern char** environ;

namespace upscaled::server {
namespace {

constexpr int kExitCannotStart = 2;
constexpr int kExitDeviceHangs = 4;
constexpr absl::Duration kLongestHungDrain = absl::Minutes(5);  // even of an endless drain
constexpr absl::Duration kLastWords = absl::Seconds(1);         // to a reader who may not read

// Blocks the signals that Main waits for.
sigset_t TakeSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int taken : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, taken);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int ignored : {SIGPIPE, SIGUSR1, SIGUSR2}) signal(ignored, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // whoever started us may have ignored it, and decoders are waited for
  return signals;
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int stop : {SIGTERM, SIGINT}) sigaddset(&signals, stop);
  return signals;
}

// Takes what still belongs to the first one: whose parent dies gets one for each of its threads
// (PR_SET_PDEATHSIG).
void TakeRestOfStop() {
  constexpr timespec kSameStop = {.tv_sec = 0, .tv_nsec = 100'000'000};
  const sigset_t signals = StopSignals();
  while (sigtimedwait(&signals, nullptr, &kSameStop) > 0) {
  }
}

// From now on they do what they do by default.
void ReleaseStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int CannotStart(const absl::Status& status) {
  const std::string line = absl::StrCat("upscaled: ", std::string(status.message()), "\n");
  WriteWithin(STDERR_FILENO, line, kLastWords);
  return kExitCannotStart;
}

// The start on a thread of its own: it reads files and computes, and a stop signal waits for
// neither.
class Startup {
 public:
  // Both outlive it. Makes `signal` pending for the calling thread when the server cannot start.
  // And once when only a restart brings a device back, see device_hangs.
  Startup(const ServerConfig& config, Logger& logger, int signal)
      : thread_([this, &config, &logger, signal, caller = pthread_self()] {
          const auto on_hopeless = [this, signal, caller] {
            if (device_hangs_.exchange(true)) return;
            absl::MutexLock lock(&mutex_);
            if (!settled_) pthread_kill(caller, signal);
          };
          absl::Status status = Run(config, logger, on_hopeless);
          absl::MutexLock lock(&mutex_);
          ended_ = true;
          status_ = std::move(status);
          if (!status_.ok() && !settled_) pthread_kill(caller, signal);
        }) {}
  ~Startup() { thread_.join(); }

  // null before its ports are open.
  Server* server() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return server_.get();
  }
  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }
  bool device_hangs() const { return device_hangs_; }
  // After a signal: why the server could not start, or OK. No signal comes from here any more.
  absl::Status Settle() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    settled_ = true;
    return status_;
  }

 private:
  absl::Status Run(const ServerConfig& config, Logger& logger,
                   const std::function<void()>& on_hopeless) ABSL_LOCKS_EXCLUDED(mutex_) try {
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(config, logger, CreateBackend, on_hopeless);
    if (!server.ok()) return server.status();
    Server& opened = **server;
    {
      absl::MutexLock lock(&mutex_);
      server_ = *std::move(server);
    }
    const absl::Status status = opened.WarmUp();
    if (status.ok()) NotifyServiceManager("READY=1");
    return status;
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }

  mutable absl::Mutex mutex_;
  std::unique_ptr<Server> server_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool settled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> device_hangs_ = false;
  std::thread thread_;  // last: it uses what is above
};

void ReloadNow(const Startup& startup) {
  NotifyServiceManager("RELOADING=1");
  startup.server()->Reload();
  if (startup.ended()) NotifyServiceManager("READY=1");
}

// Until a stop signal. Meanwhile `reload`, which the first SIGHUP makes, reloads the server.
int AwaitStop(const sigset_t& signals, const Startup& startup, std::optional<Timer::Task>& reload,
              Logger& logger) {
  while (true) {
    int received = 0;
    sigwait(&signals, &received);
    if (received != SIGHUP) return received;
    Server* const server = startup.server();
    if (server == nullptr) {
      logger.Info("SIGHUP during the start: nothing to reload yet");
      continue;
    }
    if (!reload.has_value()) {
      reload.emplace(server->timer(), Timer::Length::kMayBlock, [&startup] { ReloadNow(startup); });
    }
    reload->Request();
  }
}

void Stop(Server& server, const ServerConfig& config, bool device_hangs, ForcedExit& forced_exit,
          Logger& logger) {
  const int hang_code = device_hangs ? kExitDeviceHangs : ForcedExit::kExitCode;
  const absl::Duration timeout =
      device_hangs ? std::min(config.drain_timeout, kLongestHungDrain) : config.drain_timeout;
  const auto leftovers = [&server] {
    return std::vector<ForcedExit::Leftover>{
        {"calls", [&server] { return int64_t{server.admission_state().requests}; }},
        {"tiles", [&server] {
           const TileLoad load = server.tile_load();
           return int64_t{load.queued_tiles} + int64_t{load.running_tiles};
         }}};
  };
  const absl::Duration grace = ForcedExit::kGrace - ForcedExit::kReportTime;
  forced_exit.Arm(config.lame_duck_delay + timeout + grace, leftovers(), hang_code);
  if (config.lame_duck_delay > absl::ZeroDuration()) {
    server.StartLameDuck();
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(config.lame_duck_delay));
    logger.Info("takes no more calls");
  }
  if (!server.FinishCalls(timeout)) {
    logger.Warning(absl::StrCat("calls were cancelled, or their answers cut, after ",
                                absl::FormatDuration(timeout), " (--drain-timeout)"));
  }
  forced_exit.Arm(grace, leftovers(), hang_code);  // from now on even after --drain-timeout=inf
  server.Close();
  forced_exit.ForgetLeftovers();
}

int Run(const ServerConfig& config) {
  // Before the first thread starts, so that all inherit it and sigwait gets the signals.
  const sigset_t signals = TakeSignals();
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // we say what is wrong, and in one line

  Logger logger(config.log_format, config.log_level);
  ForcedExit forced_exit(logger);
  Startup startup(config, logger, SIGTERM);
  std::optional<Timer::Task> reload;
  const int received = AwaitStop(signals, startup, reload, logger);
  if (absl::Status status = startup.Settle(); !status.ok()) {
    logger.Flush(kLastWords);
    ReleaseStopSignals();
    forced_exit.Arm(ForcedExit::kGrace, {});
    return CannotStart(status);
  }
  NotifyServiceManager("STOPPING=1");
  TakeRestOfStop();
  ReleaseStopSignals();
  const bool hangs = startup.device_hangs();
  const std::string why =
      hangs ? "draining as a device does not answer"
            : absl::StrCat("draining after ", received == SIGTERM ? "SIGTERM" : "SIGINT");
  logger.Info(absl::StrCat(why, "; a second signal ends at once"));
  if (Server* const server = startup.server()) {
    Stop(*server, config, hangs, forced_exit, logger);
  }
  logger.Info("stopped");
  // No call is left, so no client misses the end of a start or a reload.
  if (!startup.ended() || (reload.has_value() && reload->busy())) {
    logger.Flush(kLastWords);
    std::_Exit(hangs ? kExitDeviceHangs : 0);
  }
  return hangs ? kExitDeviceHangs : 0;
}

int Main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "keys") {
    return RunKeysCommand(argc - 1, argv + 1, std::cin, std::cout, std::cerr);
  }
  absl::StatusOr<ParsedConfig> parsed = ParseConfig(argc, argv, ReadEnvironment(environ));
  if (!parsed.ok()) return CannotStart(parsed.status());
  if (!parsed->printout.empty()) {
    std::fputs(parsed->printout.c_str(), stdout);
    return 0;
  }
  return Run(parsed->config);
} catch (const std::exception& error) {  // of the standard library: no thread, no memory
  return CannotStart(absl::InternalError(error.what()));
}

}  // namespace
}  // namespace upscaled::server

int main(int argc, char** argv) { return upscaled::server::Main(argc, argv); }
