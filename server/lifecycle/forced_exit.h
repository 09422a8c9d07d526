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
// the monotonic clock's. Thread safe.
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

  // Starts its thread while the machine still has one: std::system_error if it has none.
  // `logger` must outlive it.
  explicit ForcedExit(Logger& logger);
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
};

}  // namespace upscaled::server
