// upscaled: the server's process.
//
// Exit codes: 0 after a drain, 2 when it cannot start as asked.

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, logger);
  if (!server.ok()) return CannotStart(server.status());
  if (absl::Status status = (*server)->WarmUp(); !status.ok()) return CannotStart(status);

  int received = 0;
  sigwait(&signals, &received);
  logger.Info(absl::StrCat("draining after ", received == SIGTERM ? "SIGTERM" : "SIGINT",
                           "; a second signal ends at once"));
  // From now on a signal does what it does by default.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  if (!(*server)->Drain(config.drain_timeout)) {
    logger.Warning(absl::StrCat("calls were cancelled after ",
                                absl::FormatDuration(config.drain_timeout), " (--drain-timeout)"));
  }
  logger.Info("stopped");
  return 0;
}

}  // namespace
}  // namespace upscaled::server

int main(int argc, char** argv) { return upscaled::server::Main(argc, argv); }
