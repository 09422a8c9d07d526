// The keys of an issuer of tokens, fetched from the issuer: OpenID Connect Discovery 1.0.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/steady_wait.h"
#include "server/base/timer.h"
#include "server/identity/key_set.h"

namespace upscaled::server {

// The place to fetch from.
struct Issuer {
  std::string url;           // https://, or http:// on a loopback address
  std::filesystem::path ca;  // PEM certificates to trust; empty: the system's

  friend bool operator==(const Issuer&, const Issuer&) = default;
};

// INVALID_ARGUMENT gives the URL's rules.
absl::Status CheckIssuerUrl(const std::string& url);

// The key set of the issuer's configuration; both are fetched in at most 20 s. UNAVAILABLE: one of
// them cannot be had; INVALID_ARGUMENT: one is not as it should be. The message names its URL.
absl::StatusOr<std::string> FetchIssuerKeys(const Issuer& issuer);

// Keeps the keys of one issuer up to date, in a task of a timer. Thread safe.
class IssuerKeys {
 public:
  using Fetch = std::function<absl::StatusOr<std::string>(const Issuer& issuer)>;
  // Keys are fetched again after this time, or this long after a failure.
  static constexpr absl::Duration kInterval = absl::Minutes(5);
  static constexpr absl::Duration kMinInterval = absl::Seconds(30);

  // Begins to fetch. `timer` must outlive it. Request fetches no sooner than `min_interval` after
  // the last time.
  explicit IssuerKeys(Timer& timer, Issuer issuer, absl::Duration min_interval = kMinInterval,
                      Fetch fetch = FetchIssuerKeys);

  const Issuer& issuer() const { return issuer_; }
  // The same object until the issuer has other keys, even if a try fails. Null: none have been
  // fetched yet.
  std::shared_ptr<const KeySet> get() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the first try to end.
  void Await(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Why the last try failed; OK when this is called again, or if it did not.
  absl::Status TakeFailure() ABSL_LOCKS_EXCLUDED(mutex_);
  // Fetches soon, because a token names an absent key.
  void Request() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Update() ABSL_LOCKS_EXCLUDED(mutex_);

  const Issuer issuer_;
  const absl::Duration min_interval_;
  const Fetch fetch_;
  mutable absl::Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);  // of keys_
  std::shared_ptr<const KeySet> keys_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool tried_ ABSL_GUARDED_BY(mutex_) = false;
  mutable SteadyCondition tried_condition_;
  absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Timer::Task task_;  // last: it uses what is above
};

}  // namespace upscaled::server
