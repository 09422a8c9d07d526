// Jobs in a store that outlives processes, and their workers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/jobs/system_clock.h"

namespace upscaled::server {

enum class JobState {
  kWaiting,    // for a worker, or for the time of its next try
  kRunning,    // with a worker, whose lease may have run out
  kDone,       // its result is where it belongs
  kFailed,     // for good: the dead letters
  kCancelled,  // by somebody who did not want it any more
};
inline constexpr JobState kJobStates[] = {JobState::kWaiting, JobState::kRunning, JobState::kDone,
                                          JobState::kFailed, JobState::kCancelled};

// Whether it is for good.
bool HasEnded(JobState state);
// "waiting", "running", "done", "failed", "cancelled".
absl::string_view JobStateName(JobState state);
// nullopt for another text.
std::optional<JobState> ParseJobState(absl::string_view name);

// The errors of all queues: of a job not there; of an ended one, in words; and of a lease of
// another worker, or one lost by the job's cancellation.
absl::Status NoSuchJob(const std::string& id);
absl::Status CannotCancel(const std::string& id, absl::string_view state);
absl::Status LeaseIsLost(const std::string& id, bool cancelled);

// INVALID_ARGUMENT for anything but 1 to 64 letters, digits, - and _: files are named after jobs.
absl::Status CheckJobId(const std::string& id);

// Indexed facts of a job:
struct JobLabels {
  // Tenants with due jobs take turns, except in NATS. "": the operator's own jobs. They take turns
  // as one tenant.
  std::string tenant;
  std::string batch;      // an id like a job's, of jobs that were submitted together; "": none
  std::string reference;  // the submitter's own name for the job; "": none

  bool operator==(const JobLabels&) const = default;
};

// Work to be done, in words for the worker (task.h), under an id of the submitter's choice.
struct NewJob {
  std::string id;
  std::string task;
  JobLabels labels = {};
};

// A job of this worker only, during the lease.
struct LeasedJob {
  std::string id;
  std::string task;
  int delivery = 0;    // 1: nobody has tried before
  std::string handle;  // the queue's name for this lease
};

// How far a delivery is, as its worker's last heartbeat told.
struct JobProgress {
  int64_t tiles_done = 0;
  int64_t tiles = 0;  // 0: not known yet

  bool operator==(const JobProgress&) const = default;
};

struct JobInfo {
  std::string id;
  std::string task;
  JobState state = JobState::kWaiting;
  int deliveries = 0;
  std::string report;    // the last worker's words: the result, or why there is none
  JobProgress progress;  // of the latest delivery; zeros until it is told
  absl::Time submitted, changed;
  JobLabels labels;
};

// Names the jobs with all of its fields.
struct JobFilter {
  std::optional<JobState> state;                        // nullopt: any
  std::string id;                                       // "": any
  std::string tenant = {}, batch = {}, reference = {};  // "": any
  // Only jobs submitted before this one; none if the queue does not know it. "": any.
  std::string before = {};
  int limit = 1000;  // the latest of them

  // Whether a job matches the fields except `before` and `limit`.
  bool Matches(const JobInfo& job) const;
};

// Delivers each job at least once, and to one worker at a time while workers keep their leases.
// So a job's work must be safe to repeat, and a worker calls Complete last. Thread safe.
// Processes share the underlying storage.
//
// Errors of every function:
//   UNAVAILABLE  the queue cannot be reached or written now, or another process has held it long
//   DATA_LOSS    the queue is damaged
// Functions with a LeasedJob also return ABORTED if another worker now has the lease, and
// CANCELLED if the job was cancelled. In both cases the worker drops the job.
class JobQueue {
 public:
  virtual ~JobQueue() = default;

  // When it returns OK, the jobs survive process and machine; after an error, all, some or none
  // may. Jobs with a known id are passed over: a submitter may try again. Errors also as
  // CheckJobId's.
  virtual absl::Status Enqueue(std::span<const NewJob> jobs) = 0;

  // Takes the job due for longest, of the tenant with the longest wait for its turn. nullopt: no
  // job is due. A job not extended, completed, retried or handed back within `term` is due again.
  virtual absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Duration term) = 0;
  // The heartbeat: the lease ends `term` from now, and the job is so far.
  virtual absl::Status Extend(const LeasedJob& job, absl::Duration term,
                              const JobProgress& progress) = 0;

  virtual absl::Status Complete(const LeasedJob& job, const std::string& report) = 0;
  // For good: no worker tries it again.
  virtual absl::Status Fail(const LeasedJob& job, const std::string& report) = 0;
  // To be tried again after `wait`.
  virtual absl::Status Retry(const LeasedJob& job, const std::string& report,
                             absl::Duration wait) = 0;
  // To another worker at once, and this delivery does not count.
  virtual absl::Status HandBack(const LeasedJob& job) = 0;

  // A waiting job is not begun; the worker of a running one gets CANCELLED from its next Extend.
  // NOT_FOUND for an unknown job, FAILED_PRECONDITION for one with another end.
  virtual absl::Status Cancel(const std::string& id) = 0;

  // In order of submission.
  virtual absl::StatusOr<std::vector<JobInfo>> List(const JobFilter& filter) = 0;
  // The number of jobs in each state, without zeros.
  virtual absl::StatusOr<std::map<JobState, int64_t>> Count() = 0;

  // Forgets jobs ended more than `age` ago, at most `limit` of them, and returns their number. A
  // forgotten job's id may be used again.
  virtual absl::StatusOr<int> ForgetEnded(absl::Duration age, int limit) = 0;
  // Returns true to one caller per `interval` among all processes: it does the `duty`, a name like
  // a job's id, for all of them.
  virtual absl::StatusOr<bool> TakeTurn(const std::string& duty, absl::Duration interval) = 0;
};

// The fate of a queue that does not exist: it is made, or opening it is NOT_FOUND and makes
// nothing.
enum class IfAbsent { kMake, kError };

// NOT_FOUND for a queue at `place`.
absl::Status NoSuchQueue(const std::string& place);

// Opens a folder as SqliteQueue, or the broker of a URL whose library is built in, as RedisQueue,
// NatsQueue and PostgresQueue have it. SqliteQueue reads the time from `clock`. INVALID_ARGUMENT
// for another URL. A queue in Redis exists once it had a job or a worker.
absl::StatusOr<std::unique_ptr<JobQueue>> OpenQueue(const std::string& address,
                                                    SystemClock clock = {},
                                                    IfAbsent if_absent = IfAbsent::kMake);

// Returns the folder of this user's jobs unless they say otherwise: upscale/ in XDG_STATE_HOME,
// else in ~/.local/state. FAILED_PRECONDITION if neither that nor HOME is set.
absl::StatusOr<std::filesystem::path> DefaultQueueFolder();

}  // namespace upscaled::server
