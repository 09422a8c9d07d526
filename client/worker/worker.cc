#include "client/worker/worker.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/worker/job_report.h"
#include "client/worker/lease_keeper.h"
#include "client/worker/webhook.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

// Between two sweeps of a queue, by any worker.
constexpr absl::Duration kSweepInterval = absl::Minutes(10);
// Jobs that are forgotten in one call, which holds other calls up meanwhile.
constexpr int kForgottenAtOnce = 200;
constexpr absl::Duration kForever = absl::Hours(24 * 365);

// Has the heartbeat tell what the server tells.
class ProgressTeller final : public ImageObserver {
 public:
  explicit ProgressTeller(LeaseKeeper& keeper) : keeper_(keeper) {}
  void OnProgress(const v1::UpscaleProgress& progress) override {
    keeper_.Tell({.tiles_done = progress.tiles_done(), .tiles = progress.tiles()});
  }

 private:
  LeaseKeeper& keeper_;
};

}  // namespace

Worker::Worker(server::JobQueue& queue, Service& service, const ResultStore& results,
               WorkerOptions options, RetryClock& clock,
               std::function<void(const std::string&)> log)
    : queue_(queue),
      service_(service),
      results_(results),
      runner_(service, results, options.s3, options.allowed),
      options_(std::move(options)),
      clock_(clock),
      log_(std::move(log)) {}

absl::Status Worker::Run(std::stop_token stop) {
  const std::stop_callback end(stop, [this] { end_.request_stop(); });
  const std::jthread drain([this](std::stop_token done) {
    while (!end_.stop_requested()) clock_.Sleep(kForever, end_.get_token());
    clock_.Sleep(options_.drain, done);
    if (!done.stop_requested()) abort_.request_stop();
  });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options_.parallel; ++i) threads.emplace_back([this] { Work(); });
  }
  end_.request_stop();
  absl::MutexLock lock(&mutex_);
  return fault_;
}

void Worker::Work() {
  const std::stop_token end = end_.get_token();
  while (!end.stop_requested()) {
    absl::StatusOr<std::optional<server::LeasedJob>> job = std::nullopt;
    if (ServerIsReady()) {
      Sweep();
      job = queue_.Lease(options_.lease);
      if (absl::IsDataLoss(job.status())) return Fault(job.status());
      if (!job.ok()) log_(absl::StrCat("no job to be had: ", job.status().message()));
      if (job.ok() && job->has_value()) {
        RunJob(**job);
        continue;
      }
      if (job.ok() && options_.until_empty && IsEmpty()) return;
    }
    clock_.Sleep(options_.poll, end);
  }
}

bool Worker::ServerIsReady() {
  using grpc::health::v1::HealthCheckResponse;
  if (options_.check_server) {
    if (const absl::Status ended = options_.check_server(); !ended.ok()) {
      Fault(ended);
      return false;
    }
  }
  const auto health = service_.CheckHealth("", end_.get_token());
  const bool ready = health.ok() && *health == HealthCheckResponse::SERVING;
  if (waits_for_server_.exchange(!ready) == ready && !end_.stop_requested()) {
    log_(ready ? "the server is ready again"
               : absl::StrCat("waiting for the server, which is not ready", health.ok() ? "" : ": ",
                              health.status().message()));
  }
  return ready;
}

bool Worker::IsEmpty() {
  const auto counts = queue_.Count();
  return counts.ok() && !counts->contains(server::JobState::kWaiting) &&
         !counts->contains(server::JobState::kRunning);
}

void Worker::Sweep() {
  const absl::Time now = clock_.Now();
  int64_t due_us = next_sweep_us_;
  if (absl::ToUnixMicros(now) < due_us) return;
  const int64_t next_us = absl::ToUnixMicros(now + kSweepInterval);
  if (!next_sweep_us_.compare_exchange_strong(due_us, next_us)) return;  // another thread's
  absl::StatusOr<bool> turn = queue_.TakeTurn("forget", kSweepInterval);
  if (!turn.ok()) return log_(absl::StrCat("ended jobs stay: ", turn.status().message()));
  if (!*turn) return;
  int64_t sum = 0;
  absl::StatusOr<int> forgotten = kForgottenAtOnce;
  while (forgotten.ok() && *forgotten == kForgottenAtOnce && !end_.stop_requested()) {
    forgotten = queue_.ForgetEnded(options_.keep_ended, kForgottenAtOnce);
    sum += forgotten.value_or(0);
  }
  if (!forgotten.ok()) log_(absl::StrCat("ended jobs stay: ", forgotten.status().message()));
  if (sum > 0) log_(absl::StrCat("forgot ", sum, " jobs that ended long ago (--keep-ended)"));
}

void Worker::RunJob(const server::LeasedJob& job) {
  const absl::Time start = clock_.Now();
  TaskOutcome outcome;
  absl::Status settled;
  {
    std::stop_source stop;
    LeaseKeeper keeper(queue_, job, options_.lease, clock_);
    const auto request_stop = [&stop] { stop.request_stop(); };
    const std::stop_callback lost(keeper.token(), request_stop);
    const std::stop_callback abort(abort_.get_token(), request_stop);
    // Should reading a task be what kills workers, its webhook hears nothing.
    const absl::StatusOr<server::Task> task = job.delivery > options_.max_deliveries + 1
                                                  ? absl::AbortedError("not read any more")
                                                  : server::ParseTask(job.task);
    ProgressTeller teller(keeper);
    outcome = Attempt(job, task, teller, stop.get_token());
    settled = keeper.lost();
    if (settled.ok()) {
      settled = Settle(job, task.ok() ? &*task : nullptr, outcome, stop.get_token());
    }
  }
  log_(LogLine(job, outcome, settled, clock_.Now() - start));
}

TaskOutcome Worker::Attempt(const server::LeasedJob& job, const absl::StatusOr<server::Task>& task,
                            ImageObserver& observer, std::stop_token stop) {
  if (job.delivery > options_.max_deliveries) {
    return {.status = absl::AbortedError(absl::StrCat("it was delivered ", job.delivery - 1,
                                                      " times, and no worker came to its end")),
            .blame = Blame::kTask};
  }
  if (!task.ok()) return {.status = task.status(), .blame = Blame::kTask};
  if (!task->cancelled_job.empty()) return {};  // End tells the webhook
  return runner_.Run(job.id, *task, observer, std::move(stop));
}

absl::Status Worker::Settle(const server::LeasedJob& job, const server::Task* task,
                            const TaskOutcome& outcome, std::stop_token stop) {
  if (outcome.blame != Blame::kNobody && abort_.stop_requested()) return queue_.HandBack(job);
  switch (outcome.blame) {
    case Blame::kNobody:
      return End(job, task, server::JobState::kDone, ResultReport(outcome), std::move(stop));
    case Blame::kTask:
      return GiveUp(job, task, outcome.status, std::move(stop));
    case Blame::kPassing:
      if (job.delivery >= options_.max_deliveries) {
        return GiveUp(job, task, outcome.status, std::move(stop));
      }
      return queue_.Retry(job, ErrorReport(outcome.status), WaitAfter(job.delivery));
    case Blame::kLimit: {
      const absl::Duration asked = DetailsOf(outcome.status).retry_delay.value_or(absl::Duration());
      const absl::Duration wait = std::max(asked, WaitAfter(job.delivery));
      log_(absl::StrCat("job ", job.id, " waits ", absl::FormatDuration(wait), ": ",
                        outcome.status.message()));
      return HandBackAfter(job, wait, std::move(stop));
    }
    case Blame::kWorker:
      Fault(outcome.status);
      return queue_.HandBack(job);
  }
  return absl::OkStatus();
}

absl::Status Worker::GiveUp(const server::LeasedJob& job, const server::Task* task,
                            const absl::Status& error, std::stop_token stop) {
  const absl::Status written = results_.WriteError(job.id, DeadLetter(job, error), stop);
  if (absl::IsUnavailable(written)) {
    // Perhaps why the job failed: it costs no delivery, but is not tried again at once.
    log_(absl::StrCat("job ", job.id, ": ", written.message()));
    return HandBackAfter(job, WaitAfter(job.delivery), std::move(stop));
  }
  if (!written.ok()) {
    // Cancelled: the worker is to end, or has lost the job, of which the queue knows.
    if (!absl::IsCancelled(written)) Fault(written);
    return queue_.HandBack(job);
  }
  return End(job, task, server::JobState::kFailed, ErrorReport(error), std::move(stop));
}

absl::Status Worker::End(const server::LeasedJob& job, const server::Task* task,
                         server::JobState state, const std::string& report, std::stop_token stop) {
  if (task != nullptr && !task->webhook.empty()) {
    const absl::Status told = Tell(job, *task, state, report, std::move(stop));
    if (!told.ok()) {
      log_(absl::StrCat("job ", job.id, ": ", told.message()));
      if (abort_.stop_requested()) return queue_.HandBack(job);
      if (job.delivery < options_.max_deliveries) {
        return queue_.Retry(job, ErrorReport(told), WaitAfter(job.delivery));
      }
    }
    // Nothing else was to be done.
    if (!task->cancelled_job.empty() && !told.ok()) return queue_.Fail(job, ErrorReport(told));
  }
  return state == server::JobState::kDone ? queue_.Complete(job, report) : queue_.Fail(job, report);
}

absl::Status Worker::Tell(const server::LeasedJob& job, const server::Task& task,
                          server::JobState state, const std::string& report, std::stop_token stop) {
  const bool is_message = !task.cancelled_job.empty();
  return SendWebhook(options_.webhook_secret, is_message ? task.cancelled_job : job.id, task,
                     is_message ? server::JobState::kCancelled : state, is_message ? "" : report,
                     clock_.Now(), options_.allowed, std::move(stop));
}

absl::Status Worker::HandBackAfter(const server::LeasedJob& job, absl::Duration wait,
                                   std::stop_token stop) {
  std::stop_source over;
  const auto end_wait = [&over] { over.request_stop(); };
  const std::stop_callback on_stop(stop, end_wait);
  const std::stop_callback on_end(end_.get_token(), end_wait);
  clock_.Sleep(wait, over.get_token());
  return queue_.HandBack(job);
}

absl::Duration Worker::WaitAfter(int delivery) {
  absl::Duration wait = options_.first_wait;
  for (int i = 1; i < delivery && wait < options_.longest_wait; ++i) wait *= 2;
  return std::min(wait, options_.longest_wait) * (0.5 + 0.5 * clock_.Random());
}

void Worker::Fault(const absl::Status& error) {
  end_.request_stop();
  absl::MutexLock lock(&mutex_);
  if (fault_.ok()) fault_ = error;
}

}  // namespace upscaled::client
