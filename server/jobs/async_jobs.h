// Images to be upscaled after the end of their call: a queue of jobs, and a store of their sources
// and results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/image/byte_stream.h"
#include "server/base/timer.h"
#include "server/jobs/job_failure.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_store.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct AsyncJobsOptions {
  std::string queue;            // as OpenQueue's address
  std::filesystem::path store;  // absolute; workers see it under the same path
  // The size of the store, about. A job takes 64 KiB of it in addition to its files.
  int64_t max_bytes = int64_t{10} << 30;
  // How long the rest of an ended job is kept.
  absl::Duration retention = absl::Hours(24);
  // Is called with faults of the queue or the store, on any thread. May be null.
  std::function<void(const absl::Status& trouble)> warn;
};

// A client's request for a job.
struct JobRequest {
  upscale::v1::UpscaleOptions options;  // canonical: the worker's server has other defaults
  std::string webhook;                  // a URL that is told of the end; "": none
  std::string reference;                // the client's own name for the job
  std::string shown_source;             // that the webhook is told; "": it was sent without a name
};

// A selection of a tenant's jobs.
struct JobQuery {
  std::string state;             // "": any, otherwise as JobStateName
  std::string batch, reference;  // "": any
  std::string before;            // an id: only jobs that were submitted earlier; "": any
  int limit = 100;               // the latest of them
};

// The fate of a job's webhook.
struct JobWebhook {
  std::string state;  // "waiting" for the job or for another try, "told", "failed"
  int tries = 0;
  std::string error;  // of the last try, in words that the submitter may read; "": none
};

struct AsyncJob {
  std::string id;
  std::string batch, reference;  // "": none
  std::string state;             // as JobStateName
  bool ended = false;            // for good
  absl::Time submitted, changed;
  int deliveries = 0;                 // to workers
  int64_t tiles_done = 0;             // by the worker that has it
  int64_t tiles = 0;                  // 0: not known
  std::string result_name;            // content address of a result that is there; "": none is
  int width_px = 0, height_px = 0;    // of the result of a job that is done; 0: not known
  std::optional<JobFailure> failure;  // of one that has failed
  std::vector<std::string> warnings;  // about all that the result has dropped or changed
  // nullopt: it has none, or ended under a release that kept no record of it.
  std::optional<JobWebhook> webhook;
};

// Jobs are found by unguessable ids, and only by callers of their tenant. The workers
// (`upscale-worker`) call servers in their own name.
//
// A job's files in the store go by themselves: the source when the job has ended, all of it after
// `retention` more, and the rest of a dead server.
//
// Thread safe; calls take as long as disk and queue do. Errors are NOT_FOUND for a job of another
// tenant; UNAVAILABLE if queue or store cannot be used now.
class AsyncJobs {
 public:
  // `timer` sweeps and must outlive the jobs. As OpenQueue and JobStore::Open; INVALID_ARGUMENT for
  // a store without a name for tasks.
  static absl::StatusOr<std::unique_ptr<AsyncJobs>> Open(Timer& timer, AsyncJobsOptions options);
  // With another way to open queues, for tests.
  using QueueOpener =
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<JobQueue>>(const std::string&)>;
  static absl::StatusOr<std::unique_ptr<AsyncJobs>> Open(Timer& timer, AsyncJobsOptions options,
                                                         QueueOpener open_queue);

  // Jobs of one submission, all of them queued or none. Not thread safe; `jobs` must outlive it.
  class Batch {
   public:
    // The tenant is empty where the server asks for no keys. `name`: the id of the batch; "": the
    // job belongs to none.
    Batch(AsyncJobs& jobs, std::string tenant, std::string name)
        : jobs_(jobs), tenant_(std::move(tenant)), name_(std::move(name)) {}
    // An unguessable name for a batch.
    static std::string NewName();
    // Removes the stored jobs that were not queued.
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    // Stores all bytes of `source`. Also errors of `source`, and RESOURCE_EXHAUSTED (kOverloaded)
    // when the store is full, or half of it is this tenant's.
    absl::Status Add(ByteSource& source);
    // A worker fetches the source.
    absl::Status AddUrl(const std::string& url);
    int size() const { return static_cast<int>(stored_.size()); }
    // Queues a job for each source. After OK the job outlasts the server. `requests` are as many as
    // sources were added, in their order.
    absl::StatusOr<std::vector<AsyncJob>> Queue(const std::vector<JobRequest>& requests);

   private:
    struct Stored {
      std::string id;
      std::string url;  // "": the source is in the store
    };

    AsyncJobs& jobs_;
    const std::string tenant_, name_;
    std::vector<Stored> stored_;
  };

  // A batch of one job.
  absl::StatusOr<AsyncJob> Submit(const std::string& tenant, const JobRequest& request,
                                  ByteSource& source);
  // The latest first. `last` becomes the id for `before` in a query for the next page; "": there
  // are no more. INVALID_ARGUMENT (kInvalidOption) for an unknown state, for a `before` that is no
  // job of the tenant's, and if an empty tenant names no batch: callers without a key know their
  // jobs by unguessable ids.
  absl::StatusOr<std::vector<AsyncJob>> List(const std::string& tenant, const JobQuery& query,
                                             std::string& last);
  absl::StatusOr<AsyncJob> Find(const std::string& tenant, const std::string& id);
  // The place of a job's result, if Find says that it has one.
  std::filesystem::path Result(const AsyncJob& job) const { return store_.Result(job.id); }
  // Keeps workers from beginning a waiting job, and stops a running one; removes its source and its
  // result. Its webhook is told. OK also for a job that has ended, or was cancelled before.
  absl::Status Cancel(const std::string& tenant, const std::string& id);

  // Removes all jobs due by `now`. Done by Open, and every minute; one at a time.
  void Sweep(absl::Time now);

 private:
  AsyncJobs(Timer& timer, AsyncJobsOptions options, std::unique_ptr<JobQueue> queue,
            JobStore store);
  absl::StatusOr<JobInfo> Look(const std::string& tenant, const std::string& id);
  // As callers see a job of the queue's.
  AsyncJob Show(const JobInfo& job) const;
  // Cancels jobs possibly queued by a failed Enqueue. Jobs not cancelled now find no source, or
  // leave an orphan (StoredJob).
  void TakeBack(const std::vector<NewJob>& jobs);
  absl::Status Store(const std::string& id, const std::string& tenant, ByteSource& source);
  // Counts bytes before they are stored. As Submit when there is no room.
  absl::Status TakeRoom(const std::string& tenant, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether `job` is to go as a whole. As Look.
  absl::StatusOr<bool> IsOver(const StoredJob& job, absl::Time now);
  // `error` of the queue or the store as callers may know it; tells the operator all of it.
  absl::Status Trouble(const absl::Status& error) const;

  const AsyncJobsOptions options_;
  const std::unique_ptr<JobQueue> queue_;
  const JobStore store_;
  absl::Mutex mutex_;
  // By tenant: as the latest sweep found it, and the bytes added since the sweep began.
  std::map<std::string, int64_t> swept_bytes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> new_bytes_ ABSL_GUARDED_BY(mutex_);
  Timer::Task sweep_;  // last: it uses what is above
};

}  // namespace upscaled::server
