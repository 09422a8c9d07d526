// The heartbeat of a running job.
#pragma once

#include <stop_token>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/retry.h"
#include "server/jobs/job_queue.h"

namespace upscaled::client {

// Extends the lease of `job` every third of `term`, on a thread of its own, until it is destroyed,
// and when there is progress to tell, sooner. A queue without an answer is asked again: the lease
// may hold yet.
class LeaseKeeper {
 public:
  // Between two heartbeats, where both have something to tell.
  static constexpr absl::Duration kProgressInterval = absl::Seconds(2);

  // All are borrowed.
  LeaseKeeper(server::JobQueue& queue, const server::LeasedJob& job, absl::Duration term,
              RetryClock& clock);
  ~LeaseKeeper() = default;
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // The next heartbeat tells how far the job is.
  void Tell(const server::JobProgress& progress) ABSL_LOCKS_EXCLUDED(mutex_);

  // Stops when the job is no longer this worker's: `lost` says why.
  std::stop_token token() const { return lost_source_.get_token(); }
  // ABORTED or CANCELLED, as JobQueue has it; OK while it is.
  absl::Status lost() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run(std::stop_token done);
  // Whether the job is still this worker's.
  bool Beat(const server::JobProgress& progress) ABSL_LOCKS_EXCLUDED(mutex_);
  server::JobProgress progress() const ABSL_LOCKS_EXCLUDED(mutex_);

  server::JobQueue& queue_;
  const server::LeasedJob& job_;
  const absl::Duration term_;
  RetryClock& clock_;
  std::stop_source lost_source_;
  mutable absl::Mutex mutex_;
  server::JobProgress progress_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::jthread beater_;  // last: uses the others
};

}  // namespace upscaled::client
