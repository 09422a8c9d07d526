// The log of connections that were ended for what their clients did: never more than a little.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/logging/logger.h"
#include "server/net/token_bucket.h"

namespace upscaled::server {

// Thread safe. The metrics count all of them.
class OffenceLog {
 public:
  // Both must outlive it.
  OffenceLog(Logger& logger, const Clock& clock);
  void OnOffence(std::string_view peer, std::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Logger& logger_;
  const Clock& clock_;
  absl::Mutex mutex_;
  TokenBucket lines_ ABSL_GUARDED_BY(mutex_);
  int64_t unlogged_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
};

}  // namespace upscaled::server
