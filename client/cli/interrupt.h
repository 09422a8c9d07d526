// Ctrl-C as a stop token.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"
#include "client/cli/forced_exit.h"

namespace upscaled::client {

// Turns the first SIGINT, SIGTERM or SIGHUP into a request to stop; the second, or the end of
// `grace`, ends the process at once. Make one before any other thread: threads must inherit its
// signal mask.
class Interrupt {
 public:
  explicit Interrupt(absl::Duration grace = ForcedExit::kGrace);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void Wait();

  const absl::Duration grace_;
  std::stop_source source_;
  std::atomic<bool> finished_ = false;
  std::thread waiter_;
};

}  // namespace upscaled::client
