// Forces the process to exit in time, even if something hangs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/process_usage.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

// Ends the process with its exit code when its time is up: `_Exit`, from a thread with no wait but
// the monotonic clock's. If the machine has no thread to spare, the kernel's timer ends it, without
// a report. Arm it on one thread.
class ForcedExit {
 public:
  static constexpr int kExitCode = 3;
  // From a drain's time limit to the end of the process, with the report, at most; main.cc arms it
  // this much earlier.
  static constexpr absl::Duration kGrace = absl::Seconds(4);
  static constexpr absl::Duration kReportTime = absl::Milliseconds(800);

  // A possible leftover, and its count. May hang; then the count is unknown.
  struct Leftover {
    std::string name;
    std::function<int64_t()> count;
  };

  // Runs `work` on a thread of its own; std::system_error if the machine has none.
  using StartThread = std::function<void(std::function<void()> work)>;

  // `logger` must outlive it. `start_thread` is for tests; null: std::thread.
  explicit ForcedExit(Logger& logger, StartThread start_thread = nullptr);
  // The time goes on: later steps may hang, too. It then ends without a word of the logger.
  ~ForcedExit();
  ForcedExit(const ForcedExit&) = delete;
  ForcedExit& operator=(const ForcedExit&) = delete;

  // The end comes `after` from now, possibly never. The log then says how many of `leftovers`,
  // threads and connections there are. A second call moves it.
  void Arm(absl::Duration after, std::vector<Leftover> leftovers, int exit_code = kExitCode);
  // Call this before the counted parts are destroyed.
  void ForgetLeftovers();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with its thread, which nobody waits for
  const StartThread start_thread_;
  bool has_thread_ = false;  // since the first Arm with an end
};

}  // namespace upscaled::server
