#include "client/cli/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "client/cli/exit_code.h"

namespace upscaled::client {
namespace {

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

Interrupt::Interrupt(absl::Duration grace) : grace_(grace) {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  waiter_ = std::thread([this] { Wait(); });
}

Interrupt::~Interrupt() {
  finished_ = true;
  pthread_kill(waiter_.native_handle(), SIGTERM);  // Wakes the thread, and it alone.
  waiter_.join();
}

void Interrupt::Wait() {
  const sigset_t signals = Signals();
  int signal = 0;
  sigwait(&signals, &signal);
  if (finished_) return;
  source_.request_stop();
  const timespec grace = absl::ToTimespec(grace_);
  while (sigtimedwait(&signals, nullptr, &grace) < 0 && errno == EINTR) {
  }
  if (!finished_) _exit(kExitInterrupted);
}

}  // namespace upscaled::client
