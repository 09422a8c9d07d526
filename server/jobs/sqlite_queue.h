// The queue without anything to install: a table in SQLite.
#pragma once

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/sqlite.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/system_clock.h"

namespace upscaled::server {

// For the processes of one machine. Calls with an OK survive a power failure, except Lease and
// Extend: after one, jobs of lost leases are due again.
class SqliteQueue final : public JobQueue {
 public:
  // Opens `folder`/jobs.sqlite, and makes the folder and the file if they do not exist, or
  // NOT_FOUND as `if_absent` says. Times are `clock`'s; leases and waits do not change when the
  // system's clock is set. Calls are UNAVAILABLE after other processes have held the file for
  // `patience`.
  static absl::StatusOr<std::unique_ptr<JobQueue>> Open(
      const std::filesystem::path& folder, SystemClock clock = {},
      IfAbsent if_absent = IfAbsent::kMake, absl::Duration patience = absl::Seconds(20));

  absl::Status Enqueue(std::span<const NewJob> jobs) override;
  absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Duration term) override;
  absl::Status Extend(const LeasedJob& job, absl::Duration term,
                      const JobProgress& progress) override;
  absl::Status Complete(const LeasedJob& job, const std::string& report) override;
  absl::Status Fail(const LeasedJob& job, const std::string& report) override;
  absl::Status Retry(const LeasedJob& job, const std::string& report, absl::Duration wait) override;
  absl::Status HandBack(const LeasedJob& job) override;
  absl::Status Cancel(const std::string& id) override;
  absl::StatusOr<std::vector<JobInfo>> List(const JobFilter& filter) override;
  absl::StatusOr<std::map<JobState, int64_t>> Count() override;
  absl::StatusOr<int> ForgetEnded(absl::Duration age, int limit) override;
  absl::StatusOr<bool> TakeTurn(const std::string& duty, absl::Duration interval) override;

 private:
  SqliteQueue(SqliteFile database, SystemClock clock)
      : clock_(std::move(clock)), database_(std::move(database)) {}

  // Sets `started_`.
  absl::Status FindTime() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether this start's time is known already; takes it over.
  absl::StatusOr<bool> ReadStart(const SystemClock::Boot& boot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The queue's own time, shared by all processes of the machine.
  absl::Time Time() const;
  absl::Status AddRows(std::span<const NewJob> jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The tenant in turn with a due job; nullopt: no job is due. Drops the turns of tenants without
  // jobs.
  absl::StatusOr<std::optional<std::string>> NextTenant(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends `job`'s lease; the job is due `wait` from now, should it be waiting then.
  absl::Status EndLease(const LeasedJob& job, JobState state, const std::string& report,
                        absl::Duration wait = absl::ZeroDuration());
  // The reason why the lease of `job` was not found.
  absl::Status WhyNotLeased(const LeasedJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::optional<JobState>> StateOf(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SystemClock clock_;
  absl::Time started_;  // of the machine, in the queue's time
  absl::Mutex mutex_;
  SqliteFile database_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
