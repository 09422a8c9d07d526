// A queue for several machines: tables in PostgreSQL.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/broker_silence.h"
#include "server/jobs/job_queue.h"

struct pg_conn;

namespace upscaled::server {

// Each call is one statement or a few. PostgreSQL executes each completely or not at all. Workers
// pass over each other's rows (SKIP LOCKED), so none waits for another. Times are PostgreSQL's.
//
// The tables are in the schema "upscale" of the URL's database, and are made if they are missing.
class PostgresQueue final : public JobQueue {
 public:
  // postgresql://[USER:PASSWORD@]HOST[:PORT]/DATABASE[?sslmode=verify-full&...], as libpq has it.
  // INVALID_ARGUMENT for another URL; UNAVAILABLE if no server answers.
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
  struct ConnectionDeleter {
    void operator()(pg_conn* connection) const;
  };
  using Arguments = std::vector<std::string>;
  using Rows = std::vector<std::vector<std::string>>;  // texts of columns

  PostgresQueue(std::string url, std::string place)
      : url_(std::move(url)), place_(std::move(place)) {}
  absl::Status Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the tables unless they are there.
  absl::Status Prepare(IfAbsent if_absent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without arguments, `statement` may be several: all are executed, or none.
  absl::StatusOr<Rows> Ask(const char* statement, const Arguments& arguments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rows of the sent statement, once they have come, until `end`.
  absl::StatusOr<Rows> AwaitRows(absl::Time end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitResult(absl::Time end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection is lost; the next call makes another.
  absl::Status Lose(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs a statement with its arguments $1, $2, ...
  absl::StatusOr<Rows> Run(const char* statement, const Arguments& arguments)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs a statement about the lease of `job`, with its id and lease as $1 and $2. It gives a row
  // if the lease is still the worker's.
  absl::Status RunOnLease(const char* statement, const LeasedJob& job, Arguments more);
  absl::Status EndLease(const LeasedJob& job, JobState state, const std::string& report,
                        absl::Duration wait = absl::ZeroDuration());
  absl::StatusOr<std::optional<JobState>> StateOf(const std::string& id);

  const std::string url_, place_;  // the latter is for messages
  absl::Mutex mutex_;
  std::unique_ptr<pg_conn, ConnectionDeleter> connection_ ABSL_GUARDED_BY(mutex_);
  BrokerSilence silence_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
