// Logs clients' violations, at a bounded rate.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/net/token_bucket.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

// Thread safe. The metrics count all of them.
class OffenceLog {
 public:
  // A line of it begins with `message`. All three must outlive it.
  OffenceLog(Logger& logger, const Clock& clock, std::string_view message);
  void OnOffence(std::vector<LogField> fields) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Logger& logger_;
  const Clock& clock_;
  const std::string_view message_;
  absl::Mutex mutex_;
  TokenBucket lines_ ABSL_GUARDED_BY(mutex_);
  int64_t unlogged_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
};

}  // namespace upscaled::server
