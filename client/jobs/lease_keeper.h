// The heartbeat of a job that is worked on.
#pragma once

#include <stop_token>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/jobs/job_queue.h"
#include "client/retry.h"

namespace upscaled::client {

// Extends the lease of `job` every third of `term`, on a thread of its own, until it is destroyed.
// A queue that does not answer is asked again: the lease may hold yet.
class LeaseKeeper {
 public:
  // All are borrowed.
  LeaseKeeper(JobQueue& queue, const LeasedJob& job, absl::Duration term, RetryClock& clock);
  ~LeaseKeeper() = default;
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Stops when the job is no longer this worker's: `lost` says why.
  std::stop_token token() const { return lost_source_.get_token(); }
  // ABORTED or CANCELLED, as JobQueue has it; OK while it is.
  absl::Status lost() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Beat(std::stop_token done);

  JobQueue& queue_;
  const LeasedJob& job_;
  const absl::Duration term_;
  RetryClock& clock_;
  std::stop_source lost_source_;
  mutable absl::Mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::jthread beater_;  // last: uses the others
};

}  // namespace upscaled::client
