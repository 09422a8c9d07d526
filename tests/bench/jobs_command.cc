// upscale-bench jobs: the time of each call of a job queue with many jobs.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/jobs/job_queue.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

using server::JobState;
using server::LeasedJob;
using server::NewJob;

constexpr absl::Duration kLease = absl::Minutes(10);
constexpr int kFilledAtOnce = 1000, kForgottenAtOnce = 200;

struct JobsOptions {
  std::string queue;
  int jobs = 1'000'000;  // that the queue holds
  int ended = 25'000;    // of these
  int calls = 1000;      // of each kind
};

NewJob JobOf(int number) {
  return {.id = absl::StrCat("job-", number),
          .task = absl::StrCat("{\"source\": \"/in/", number, ".png\"}")};
}

// Fills the queue, and cancels the last jobs: each of these takes a call.
void Fill(server::JobQueue& queue, const JobsOptions& options) {
  for (int first = 0; first < options.jobs; first += kFilledAtOnce) {
    std::vector<NewJob> jobs;
    for (int i = first; i < std::min(first + kFilledAtOnce, options.jobs); ++i) {
      jobs.push_back(JobOf(i));
    }
    ExitUnlessOk(queue.Enqueue(jobs));
  }
  for (int i = options.jobs - options.ended; i < options.jobs; ++i) {
    ExitUnlessOk(queue.Cancel(JobOf(i).id));
  }
}

// Prints the quantiles of `calls` calls, in milliseconds.
void Time(const char* name, int calls, const std::function<void()>& call) {
  std::vector<double> times_ms;
  for (int i = 0; i < calls; ++i) {
    const absl::Time begin = absl::Now();
    call();
    times_ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
  }
  std::printf("| %s | %.2f | %.2f | %.2f |\n", name, Quantile(times_ms, 0.5),
              Quantile(times_ms, 0.99), Quantile(times_ms, 1));
}

void RunJobs(const JobsOptions& options) {
  const auto queue = ValueOrExit(server::OpenQueue(options.queue));
  const absl::Time begin = absl::Now();
  Fill(*queue, options);
  std::printf("%d jobs, filled in %.0f s\n\n", options.jobs,
              absl::ToDoubleSeconds(absl::Now() - begin));
  std::printf("| call | p50 ms | p99 ms | max ms |\n| --- | --- | --- | --- |\n");
  std::minstd_rand random(1);
  std::uniform_int_distribution<int> any(options.calls, options.jobs - options.ended - 1);
  const auto any_job = [&] { return absl::StrCat("job-", any(random)); };
  int next = options.jobs;
  LeasedJob leased;
  Time("submit", options.calls, [&] {
    const NewJob job = JobOf(next++);
    ExitUnlessOk(queue->Enqueue({&job, 1}));
  });
  Time("claim", options.calls, [&] { leased = *ValueOrExit(queue->Lease(kLease)); });
  Time("heartbeat", options.calls, [&] { ExitUnlessOk(queue->Extend(leased, kLease, {})); });
  Time("status", options.calls, [&] { ValueOrExit(queue->List({.id = any_job()})); });
  Time("list 50", options.calls, [&] { ValueOrExit(queue->List({.limit = 50})); });
  Time("list 50 cancelled", options.calls,
       [&] { ValueOrExit(queue->List({.state = JobState::kCancelled, .limit = 50})); });
  Time("count", options.calls, [&] { ValueOrExit(queue->Count()); });
  Time("cancel", options.calls, [&] { ExitUnlessOk(queue->Cancel(any_job())); });
  Time("forget 200", options.calls / 10,
       [&] { ValueOrExit(queue->ForgetEnded(absl::ZeroDuration(), kForgottenAtOnce)); });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("\npeak memory of this process: %ld MiB\n", usage.ru_maxrss >> 10);
}

}  // namespace

void AddJobsCommand(CLI::App& app) {
  auto options = std::make_shared<JobsOptions>();
  CLI::App* const command =
      app.add_subcommand("jobs", "how long the calls of a queue of many jobs take");
  command
      ->add_option("queue", options->queue,
                   "an empty folder, redis://..., nats://... or postgresql://...")
      ->required();
  command->add_option("--jobs", options->jobs, "jobs that the queue holds")
      ->check(CLI::Range(100'000, 100'000'000))
      ->capture_default_str();
  command->add_option("--ended", options->ended, "cancelled ones of these")
      ->check(CLI::Range(0, 90'000))
      ->capture_default_str();
  command->add_option("--calls", options->calls, "calls of each kind")
      ->check(CLI::Range(100, 4000))
      ->capture_default_str();
  command->callback([options] { RunJobs(*options); });
}

}  // namespace upscaled::bench
