// A queue for several machines: streams of NATS JetStream's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/nats_streams.h"

namespace upscaled::server {

// Keeps a record and a message per job. JetStream delivers the message, takes heartbeats, and
// delivers it again if they stop. The record holds the job's state, and decides. It is written by
// compare and swap, as the successor of the version read. Every change goes to the record first,
// then the message is answered. The message has the labels as well, for a worker ahead of the
// record. Any worker receiving the message of an ended job acknowledges it. So neither a crash in
// between nor a worker with a lost lease does harm.
//
// JetStream has one lease term for all, set by the latest Lease. Use the same one on every
// worker. If the broker dies, nothing is lost. If its machine dies, unsynced messages are
// (`sync_interval`), unless there are replicas. List and Count read all records.
// Jobs are delivered in order of submission, regardless of tenants.
class NatsQueue final : public JobQueue {
 public:
  // nats://[USER:PASSWORD@]HOST[:PORT][/PREFIX], or tls://...; 4222 and "upscale" unless it says
  // so. With TLS the broker's certificate is of HOST and of an authority trusted by OpenSSL.
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
  struct Record;

  explicit NatsQueue(std::unique_ptr<NatsStreams> streams) : streams_(std::move(streams)) {}
  absl::Status UseTerm(absl::Duration term) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nullopt: the job has ended, and its message is gone.
  absl::StatusOr<std::optional<LeasedJob>> Begin(const NatsWork& work);
  // Makes a job with a damaged record a failed one, with the record's error `why`.
  absl::StatusOr<Record> FailDamaged(const NatsWork& work, const absl::Status& why);
  // The record after `change`, if `change` did something; again if another was faster. A job
  // without a record has one with the number 0.
  absl::StatusOr<Record> Change(const std::string& id, absl::FunctionRef<bool(Record&)> change);
  // Changes the record of a job with this lease, and then answers for its message.
  absl::Status OnLease(const LeasedJob& job, const std::string& answer,
                       absl::FunctionRef<void(Record&)> change);
  absl::Status End(const LeasedJob& job, JobState state, const std::string& report);
  // After a job has ended.
  absl::Status DropWork(const std::string& id, const Record& record, const std::string& reply_to);
  // The one of job `id`, or all of them. DATA_LOSS if one of these is damaged.
  absl::Status ReadMatching(const std::string& id,
                            absl::FunctionRef<void(const std::string&, Record)> receive);
  // Passes on all records; a record may come twice if its job changes meanwhile. Skips damaged
  // records; `damaged` becomes the error of the first one.
  absl::Status ReadAll(absl::FunctionRef<void(const std::string&, Record)> receive,
                       absl::Status& damaged);

  const std::unique_ptr<NatsStreams> streams_;
  absl::Mutex mutex_;
  std::optional<absl::Duration> term_ ABSL_GUARDED_BY(mutex_);  // that the broker was told
};

}  // namespace upscaled::server
