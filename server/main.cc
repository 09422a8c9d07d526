// upscaled: the server's process.
//
// Exit codes: 0 when a signal has stopped it, after the drain; 2 when it cannot start as asked.

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/config/config.h"
#include "server/lifecycle/server.h"
#include "server/logging/logger.h"

extern char** environ;

namespace upscaled::server {
namespace {

constexpr int kExitCannotStart = 2;

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

int CannotStart(const absl::Status& status) {
  std::fprintf(stderr, "upscaled: %s\n", std::string(status.message()).c_str());
  return kExitCannotStart;
}

// The start on a thread of its own: it reads files and computes, and a stop signal waits for
// neither.
class Startup {
 public:
  // Both outlive it. Makes `signal` pending for the calling thread when the server cannot start.
  Startup(const ServerConfig& config, Logger& logger, int signal)
      : thread_([this, &config, &logger, signal, caller = pthread_self()] {
          absl::Status status = Run(config, logger);
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
  // After a signal: why the server could not start, or OK. No signal comes from here any more.
  absl::Status Settle() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    settled_ = true;
    return status_;
  }

 private:
  absl::Status Run(const ServerConfig& config, Logger& logger) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, logger);
    if (!server.ok()) return server.status();
    Server& opened = **server;
    {
      absl::MutexLock lock(&mutex_);
      server_ = *std::move(server);
    }
    return opened.WarmUp();
  }

  mutable absl::Mutex mutex_;
  std::unique_ptr<Server> server_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool settled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses what is above
};

int Main(int argc, char** argv) {
  absl::StatusOr<ParsedConfig> parsed = ParseConfig(argc, argv, ReadEnvironment(environ));
  if (!parsed.ok()) return CannotStart(parsed.status());
  if (!parsed->printout.empty()) {
    std::fputs(parsed->printout.c_str(), stdout);
    return 0;
  }
  const ServerConfig& config = parsed->config;

  // Blocked before the first thread starts, so that all inherit it and sigwait gets the signals.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // we say what is wrong, and in one line

  Logger logger(config.log_format, config.log_level);
  Startup startup(config, logger, SIGTERM);
  int received = 0;
  sigwait(&signals, &received);
  if (absl::Status status = startup.Settle(); !status.ok()) return CannotStart(status);
  logger.Info(absl::StrCat("draining after ", received == SIGTERM ? "SIGTERM" : "SIGINT",
                           "; a second signal ends at once"));
  // From now on a signal does what it does by default.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  Server* const server = startup.server();
  if (server != nullptr && !server->Drain(config.drain_timeout)) {
    logger.Warning(absl::StrCat("calls were cancelled after ",
                                absl::FormatDuration(config.drain_timeout), " (--drain-timeout)"));
  }
  logger.Info("stopped");
  // No call is left, so nobody misses what a start that still goes on would get done.
  if (!startup.ended()) std::_Exit(0);
  return 0;
}

}  // namespace
}  // namespace upscaled::server

int main(int argc, char** argv) { return upscaled::server::Main(argc, argv); }
