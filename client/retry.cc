#include "client/retry.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

#include "absl/base/thread_annotations.h"
#include "client/error_details.h"

namespace upscaled::client {
namespace {

class RealClock final : public RetryClock {
 public:
  absl::Time Now() override { return absl::Now(); }

  void Sleep(absl::Duration duration, std::stop_token stop) override {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [] { return false; });
  }

  double Random() override {
    thread_local std::minstd_rand generator{std::random_device{}()};
    return std::uniform_real_distribution<double>(0, 1)(generator);
  }
};

// Beyond the server's moment, in proportion: others may have been given the same.
constexpr double kJitter = 0.1;

// The time until the server's moment; zero: it named none.
absl::Duration AskedWait(const absl::Status& error) {
  return std::max(DetailsOf(error).retry_delay.value_or(absl::ZeroDuration()),
                  absl::ZeroDuration());
}

}  // namespace

RetryClock& RetryClock::Real() {
  static RealClock clock;
  return clock;
}

bool IsRetryable(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  if (absl::IsInternal(status) || absl::IsUnknown(status) || absl::IsCancelled(status)) {
    return details.origin == ErrorOrigin::kConnection;
  }
  // A call's deadline beyond reach now is beyond reach later.
  if (details.reason == "DEADLINE_INFEASIBLE") return false;
  return absl::IsUnavailable(status) ||
         (absl::IsResourceExhausted(status) && details.retry_delay.has_value());
}

absl::Status RunWithRetries(
    const RetryPolicy& policy, RetryClock& clock, absl::Time deadline, std::stop_token stop,
    absl::FunctionRef<Attempt(int)> attempt,
    absl::FunctionRef<void(const absl::Status& error, absl::Duration wait)> on_wait) {
  absl::Duration backoff = policy.initial_backoff;
  absl::Duration waited;
  int retries_left = policy.max_retries;
  for (int tries = 1;; ++tries) {
    const Attempt result = attempt(tries);
    if (result.status.ok() || !IsRetryable(result.status) || !result.repeatable ||
        stop.stop_requested()) {
      return result.status;
    }
    const absl::Duration asked = AskedWait(result.status);
    const bool has_moment = asked > absl::ZeroDuration();
    if ((has_moment ? policy.max_retries : retries_left--) <= 0) return result.status;
    absl::Duration wait;
    if (has_moment) {
      wait = std::max(asked, policy.initial_backoff) * (1 + kJitter * clock.Random());
    } else {
      wait = backoff * (0.5 + 0.5 * clock.Random());
      backoff = std::min(backoff * policy.multiplier, policy.max_backoff);
    }
    waited += wait;
    if (waited > policy.max_total_wait || clock.Now() + wait >= deadline) return result.status;
    on_wait(result.status, wait);
    clock.Sleep(wait, stop);
    if (stop.stop_requested()) return absl::CancelledError("cancelled while waiting for a retry");
  }
}

}  // namespace upscaled::client
