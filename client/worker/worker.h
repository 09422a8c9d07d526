// Works through the jobs of a queue.
#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/retry.h"
#include "client/service.h"
#include "client/worker/allowed_places.h"
#include "client/worker/result_store.h"
#include "client/worker/s3.h"
#include "client/worker/task_runner.h"
#include "server/jobs/job_message.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/task.h"

namespace upscaled::client {

struct WorkerOptions {
  int parallel = 2;  // jobs at a time
  // A job with a silent worker for this long is another's.
  absl::Duration lease = absl::Minutes(1);
  // A failed job with a chance is tried again after this time. The time doubles, and half of it is
  // random. After this many deliveries it counts as failed.
  int max_deliveries = 5;
  absl::Duration first_wait = absl::Seconds(1), longest_wait = absl::Minutes(5);
  // For running jobs when the worker is told to stop; they are handed back then.
  absl::Duration drain = absl::Seconds(30);
  // Between looks at an empty queue, and at a server not yet ready.
  absl::Duration poll = absl::Milliseconds(500);
  // How long the queue keeps ended jobs. One worker of all forgets older ones.
  absl::Duration keep_ended = absl::Hours(30 * 24);
  // Whether to end when no job waits or runs, here or with another worker.
  bool until_empty = false;
  S3Access s3;                 // for sources and outputs that are there
  AllowedPlaces allowed;       // that jobs may name
  std::string webhook_secret;  // in bytes; "": webhooks are not signed
  // The state of a server of the worker's own; null: it has none.
  std::function<absl::Status()> check_server;
};

// Takes jobs only while the server is ready: an outage costs no deliveries, and neither does a
// refusal for load or for a quota. The worker keeps to the refusal's delay. Acknowledges a job
// last. A worker killed at any time therefore loses nothing, and repeated work gives the same
// result (see TaskRunner). Tells the task's webhook before it settles the job, so the webhook is
// told at least once. If the webhook does not answer, the worker queues the message as a job of its
// own (job_message.h), which is tried again after each of kWebhookWaits. A job failed for good
// leaves errors/ID.json next to the results.
class Worker {
 public:
  // All are borrowed. `log` gets one line per job, on any thread.
  Worker(server::JobQueue& queue, Service& service, const ResultStore& results,
         WorkerOptions options, RetryClock& clock, std::function<void(const std::string&)> log);

  // OK after `stop`, or when the queue was empty. An error is the fault of no job, and another try
  // will not mend it: a key refused by the server, results without a place, a damaged queue.
  absl::Status Run(std::stop_token stop);

 private:
  void Work();
  bool ServerIsReady();
  bool IsEmpty();
  // Forgets long ended jobs, if this worker's turn has come.
  void Sweep();
  void RunJob(const server::LeasedJob& job);
  TaskOutcome Attempt(const server::LeasedJob& job, const absl::StatusOr<server::Task>& task,
                      ImageObserver& observer, std::stop_token stop);
  // `task` is null in all of these if it could not be read.
  absl::Status Settle(const server::LeasedJob& job, const server::Task* task,
                      const TaskOutcome& outcome, std::stop_token stop);
  absl::Status GiveUp(const server::LeasedJob& job, const server::Task* task,
                      const absl::Status& error, std::stop_token stop);
  // Tells the webhook, if there is one, and then the queue. The report says what became of it.
  absl::Status End(const server::LeasedJob& job, const server::Task* task, server::JobState state,
                   const std::string& report, std::stop_token stop);
  // Tries once to tell the webhook. If it may answer later, queues the message.
  absl::StatusOr<server::Telling> Tell(const server::Task& task, const server::EndedJob& ended,
                                       std::stop_token stop);
  // Tells only the webhook: the task is a message.
  absl::Status Send(const server::LeasedJob& job, const server::Task& task, std::stop_token stop);
  // To another worker, or this one, once `wait` is over or the worker is to end. Costs no delivery.
  absl::Status HandBackAfter(const server::LeasedJob& job, absl::Duration wait,
                             std::stop_token stop);
  absl::Duration WaitAfter(int delivery);
  void Fault(const absl::Status& error) ABSL_LOCKS_EXCLUDED(mutex_);

  server::JobQueue& queue_;
  Service& service_;
  const ResultStore& results_;
  const TaskRunner runner_;
  const WorkerOptions options_;
  RetryClock& clock_;
  const std::function<void(const std::string&)> log_;
  std::stop_source end_;    // no more jobs
  std::stop_source abort_;  // nor those under way
  std::atomic<bool> waits_for_server_ = false;
  std::atomic<int64_t> next_sweep_us_ = 0;
  absl::Mutex mutex_;
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);  // the first
};

}  // namespace upscaled::client
