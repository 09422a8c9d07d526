// Tries calls again if it is safe and sensible.
#pragma once

#include <stop_token>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace upscaled::client {

struct RetryPolicy {
  // Tries after the first one; 0: none. A refusal with a time to come back does not count: it costs
  // the time until then.
  int max_retries = 5;
  absl::Duration initial_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(15);
  double multiplier = 2;
  // Time spent waiting between tries, all of them together.
  absl::Duration max_total_wait = absl::Minutes(2);
};

// Time and chance, replaceable in tests. Implementations are thread safe.
class RetryClock {
 public:
  virtual ~RetryClock() = default;
  virtual absl::Time Now() = 0;
  // Returns early when `stop` is requested.
  virtual void Sleep(absl::Duration duration, std::stop_token stop) = 0;
  // Uniform in [0, 1).
  virtual double Random() = 0;

  static RetryClock& Real();
};

// The outcome of one try.
struct Attempt {
  absl::Status status;
  // Whether the call's input and output are ready for another try.
  bool repeatable = true;
};

// UNAVAILABLE; INTERNAL, UNKNOWN and CANCELLED of a broken connection; RESOURCE_EXHAUSTED when the
// server says when to come back (AIP-194).
bool IsRetryable(const absl::Status& status);

// Calls `attempt` with 1, 2, ... until it succeeds, fails for good, a bound of `policy` is reached,
// the wait would pass `deadline`, or `stop` is requested, and returns the last status (CANCELLED
// when stopped while waiting). The wait doubles from try to try, half of it random. If the server's
// RetryInfo gives a delay, the wait is this long and up to a tenth longer, because the server gives
// each refused caller a moment of its own. `on_wait` is called for each failure with a wait.
absl::Status RunWithRetries(
    const RetryPolicy& policy, RetryClock& clock, absl::Time deadline, std::stop_token stop,
    absl::FunctionRef<Attempt(int)> attempt,
    absl::FunctionRef<void(const absl::Status& error, absl::Duration wait)> on_wait);
// An `on_wait` without effect.
inline void IgnoreWait(const absl::Status&, absl::Duration) {}

}  // namespace upscaled::client
