#include "client/worker/worker.h"

#include <algorithm>
#include <iterator>
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

// Part by which a wait for a webhook is longer at most, so that many messages do not come at once.
constexpr double kWebhookJitter = 0.1;
// Between two sweeps of a queue, by any worker.
constexpr absl::Duration kSweepInterval = absl::Minutes(10);
// Forgotten jobs of one call. Other calls wait for it.
constexpr int kForgottenAtOnce = 200;
// A worker that ends with the queue waits for this many tries of a message, which take five
// minutes. Later ones are left to the next worker.
constexpr int kAwaitedTries = 3;
constexpr absl::Duration kForever = absl::Hours(24 * 365);

// Has the heartbeat repeat the server's reports.
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
  if (!counts.ok() || counts->contains(server::JobState::kRunning)) return false;
  const auto waiting = counts->find(server::JobState::kWaiting);
  if (waiting == counts->end()) return true;
  const auto messages = queue_.List({.state = server::JobState::kWaiting,
                                     .tenant = server::kMessageTenant,
                                     .limit = static_cast<int>(waiting->second)});
  const bool only_messages = messages.ok() && std::ssize(*messages) == waiting->second;
  const auto may_wait = [](const server::JobInfo& job) { return job.deliveries >= kAwaitedTries; };
  if (!only_messages || !std::ranges::all_of(*messages, may_wait)) return false;
  log_(absl::StrCat(waiting->second, " webhooks have not answered; the next worker tries again"));
  return true;
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
    // Should reading a task be what kills workers, its webhook is not told. Messages have as many
    // deliveries as tries.
    const int most = std::max(options_.max_deliveries, static_cast<int>(std::size(kWebhookWaits)));
    const absl::StatusOr<server::Task> task = job.delivery > most + 1
                                                  ? absl::AbortedError("not read any more")
                                                  : server::ParseTask(job.task);
    if (task.ok() && task->ended_job.has_value()) {
      const absl::Status sent = Send(job, *task, stop.get_token());
      if (!sent.ok()) log_(absl::StrCat("job ", job.id, ": ", sent.message()));
      return;
    }
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
    // Cancelled: the worker is to end, or has lost the job, and the queue knows.
    if (!absl::IsCancelled(written)) Fault(written);
    return queue_.HandBack(job);
  }
  return End(job, task, server::JobState::kFailed, ErrorReport(error), std::move(stop));
}

absl::Status Worker::End(const server::LeasedJob& job, const server::Task* task,
                         server::JobState state, const std::string& report, std::stop_token stop) {
  std::string whole = report;
  if (task != nullptr && !task->webhook.empty()) {
    const absl::StatusOr<server::Telling> telling =
        Tell(*task, {.id = job.id, .state = state, .report = report}, stop);
    if (!telling.ok()) {
      return queue_.Retry(job, ErrorReport(telling.status()), WaitAfter(job.delivery));
    }
    // The worker is to end, or the lease is lost, of which the queue knows.
    if (!telling->told && stop.stop_requested()) return queue_.HandBack(job);
    whole = server::WithTelling(report, *telling);
  }
  return state == server::JobState::kDone ? queue_.Complete(job, whole) : queue_.Fail(job, whole);
}

absl::StatusOr<server::Telling> Worker::Tell(const server::Task& task,
                                             const server::EndedJob& ended, std::stop_token stop) {
  WebhookTry first =
      SendWebhook(options_.webhook_secret, ended, task, clock_.Now(), options_.allowed, stop);
  if (first.telling.told || stop.stop_requested()) return std::move(first.telling);
  log_(absl::StrCat("job ", ended.id, ": the webhook was not told",
                    first.may_pass ? ", it is tried again: " : ": ", first.telling.error));
  if (!first.may_pass) return std::move(first.telling);
  ASSIGN_OR_RETURN(const server::NewJob message, server::MakeMessage(task, ended));
  RETURN_IF_ERROR(queue_.Enqueue({&message, 1}));
  first.telling.message = message.id;
  return std::move(first.telling);
}

absl::Status Worker::Send(const server::LeasedJob& job, const server::Task& task,
                          std::stop_token stop) {
  const server::EndedJob& ended = *task.ended_job;
  WebhookTry attempt =
      SendWebhook(options_.webhook_secret, ended, task, clock_.Now(), options_.allowed, stop);
  server::Telling& telling = attempt.telling;
  if (!telling.told && stop.stop_requested()) return queue_.HandBack(job);
  // A job that a worker ended has been tried by that one too.
  telling.tries = job.delivery + (ended.state == server::JobState::kCancelled ? 0 : 1);
  const std::string report = server::WithTelling("", telling);
  if (telling.told) {
    log_(absl::StrCat("job ", ended.id, ": the webhook was told at try ", telling.tries));
    return queue_.Complete(job, report);
  }
  if (attempt.may_pass && job.delivery <= std::ssize(kWebhookWaits)) {
    const absl::Duration wait =
        kWebhookWaits[job.delivery - 1] * (1 + kWebhookJitter * clock_.Random());
    log_(absl::StrCat("job ", ended.id, ": the webhook is tried again after ",
                      absl::FormatDuration(absl::Trunc(wait, absl::Seconds(1))), ": ",
                      telling.error));
    return queue_.Retry(job, report, wait);
  }
  log_(absl::StrCat("job ", ended.id, ": the webhook was not told after ", telling.tries,
                    telling.tries == 1 ? " try: " : " tries: ", telling.error));
  return queue_.Fail(job, report);
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
