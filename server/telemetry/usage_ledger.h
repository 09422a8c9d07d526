// Adds up usage by tenant, and writes it to disk periodically.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/request_record.h"
#include "server/base/timer.h"
#include "server/telemetry/usage.h"
#include "server/telemetry/usage_db.h"

namespace upscaled::server {

// Thread safe. Calls never wait for the disk: a task of the timer writes the sums every
// kWriteInterval. A crash may lose this much. If a write fails, the next one includes its sums.
class UsageLedger {
 public:
  static constexpr absl::Duration kWriteInterval = absl::Seconds(2);
  // Days and tenants before their write; calls of more are lost, and `on_failure` says so.
  static constexpr size_t kMaxWaiting = 10'000;

  // Errors as UsageDb's. Tells `on_failure`, on the timer's helper, why usage could not be
  // written. `timer` must outlive it.
  static absl::StatusOr<std::unique_ptr<UsageLedger>> Open(
      Timer& timer, const std::filesystem::path& file,
      std::function<void(const absl::Status&)> on_failure);
  // Writes all pending sums.
  ~UsageLedger();

  // A call with its end at `now`, by the system's clock.
  void Add(const RequestRecord& record, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // With all calls so far. Errors as UsageDb's.
  absl::StatusOr<std::vector<UsageRow>> Read(const UsageQuery& query);

 private:
  UsageLedger(Timer& timer, std::unique_ptr<UsageDb> db,
              std::function<void(const absl::Status&)> on_failure);
  absl::Status Write() ABSL_LOCKS_EXCLUDED(mutex_, write_mutex_);
  void WriteOrTell();

  const std::unique_ptr<UsageDb> db_;
  const std::function<void(const absl::Status&)> on_failure_;
  absl::Mutex write_mutex_;  // held over a whole writing, for which readers have to wait
  absl::Mutex mutex_;
  std::map<UsageKey, Usage> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;  // calls, since it was last told
  Timer::Task writer_;                        // last: it uses what is above
};

}  // namespace upscaled::server
