// A queue for several machines: a stream of Redis's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/broker_silence.h"
#include "server/jobs/broker_url.h"
#include "server/jobs/job_queue.h"

struct redisContext;

namespace upscaled::server {

// Runs each call as one script. Redis executes it completely or not at all. All keys begin with
// a prefix:
//  - a sorted set of due jobs per tenant
//  - a stream of leased jobs, with a consumer group recording each job's worker
//  - a hash per job
//  - a sorted set per state and per label, in order of submission
//  - a sorted set of jobs waiting for a time, by Redis's clock
// A worker takes over a job without a heartbeat for longer than the worker's own lease. Use the
// same `--lease` on every worker. To survive a power failure, set `appendonly yes` and
// `appendfsync always` in Redis.
class RedisQueue final : public JobQueue {
 public:
  // redis://[USER:PASSWORD@]HOST[:PORT][/PREFIX]; 6379 and "upscale" unless it says so.
  // INVALID_ARGUMENT for another URL; UNAVAILABLE if no broker answers.
  static absl::StatusOr<std::unique_ptr<JobQueue>> Open(const std::string& url,
                                                        IfAbsent if_absent = IfAbsent::kMake);

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
  struct ContextDeleter {
    void operator()(redisContext* context) const;
  };
  using Arguments = std::vector<std::string>;
  // The result of a script: texts, in lists in lists.
  struct Reply;

  explicit RedisQueue(BrokerUrl broker) : broker_(std::move(broker)) {}
  absl::Status Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Reply> Command(const Arguments& words) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Reply> Run(const char* script, const Arguments& arguments)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Status of a script about the lease of `job`: the script says "ok", "cancelled" or something
  // else.
  absl::Status RunOnLease(const char* script, const LeasedJob& job, Arguments more);
  absl::Status End(const LeasedJob& job, JobState state, const std::string& report);

  const BrokerUrl broker_;
  absl::Mutex mutex_;
  std::unique_ptr<redisContext, ContextDeleter> context_ ABSL_GUARDED_BY(mutex_);
  BrokerSilence silence_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
