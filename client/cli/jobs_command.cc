#include "client/cli/jobs_command.h"

#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/follow_jobs.h"
#include "client/cli/interrupt.h"
#include "client/cli/queue_flags.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/jobs/cancel_job.h"
#include "server/jobs/job_message.h"
#include "server/jobs/job_place.h"
#include "server/jobs/job_queue.h"

namespace upscaled::client {
namespace {

// These commands look at jobs of others: a queue that is not there is a wrong name.
constexpr auto kError = server::IfAbsent::kError;

struct JobsFlags {
  QueueFlags queue;
  std::string state;
  int limit = 20;
  bool json = false;
  std::vector<std::string> followed, cancelled;
  bool cancel_all = false;
};

// A queue's JSON object; an empty one for any other text.
nlohmann::json Parse(const std::string& text) {
  const nlohmann::json object = ParseShallow(text);
  return object.is_object() ? object : nlohmann::json::object();
}

// null while nothing is known.
nlohmann::json ProgressJson(const server::JobProgress& progress) {
  if (progress.tiles == 0) return nullptr;
  return {{"tiles_done", progress.tiles_done}, {"tiles", progress.tiles}};
}

// null without a webhook.
nlohmann::json WebhookJson(const std::optional<server::Telling>& telling) {
  if (!telling.has_value()) return nullptr;
  return Parse(server::WithTelling("", *telling))["webhook"];
}

void PrintJson(server::JobQueue& queue, const server::JobInfo& job) {
  const nlohmann::json object = {{"id", job.id},
                                 {"state", std::string(server::JobStateName(job.state))},
                                 {"deliveries", job.deliveries},
                                 {"submitted", absl::FormatTime(job.submitted)},
                                 {"changed", absl::FormatTime(job.changed)},
                                 {"progress", ProgressJson(job.progress)},
                                 {"task", Parse(job.task)},
                                 {"report", Parse(job.report)},
                                 {"webhook", WebhookJson(server::FindTelling(queue, job))}};
  absl::PrintF("%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Warnings of the result, and a webhook that does not know of it.
void PrintRemarks(server::JobQueue& queue, const server::JobInfo& job,
                  const nlohmann::json& report) {
  for (const std::string& warning : TextsOf(report, "warnings")) {
    absl::PrintF("  warning: %s\n", warning);
  }
  const std::optional<server::Telling> telling = server::FindTelling(queue, job);
  if (!telling.has_value() || telling->told || telling->tries == 0) return;
  absl::PrintF("  the webhook was not told after %d %s%s: %s\n", telling->tries,
               telling->tries == 1 ? "try" : "tries",
               telling->message.empty() ? "" : ", and is tried again", telling->error);
}

void PrintLine(server::JobQueue& queue, const server::JobInfo& job) {
  const nlohmann::json task = Parse(job.task), report = Parse(job.report);
  const bool is_message = task.contains("ended_job") || task.contains("cancelled_job");
  const std::string source = TextOf(task, is_message ? "webhook" : "source"),
                    message = TextOf(report, "message");
  const std::string output = TextOf(task.contains("output") ? task : report,
                                    task.contains("output") ? "output" : "result");
  const bool is_under_way = job.state == server::JobState::kRunning && job.progress.tiles > 0;
  const std::string progress = is_under_way ? absl::StrCat(" (", job.progress.tiles_done, " of ",
                                                           job.progress.tiles, " tiles)")
                                            : "";
  absl::PrintF("%s  %-9s %s%s%s%s\n", job.id, server::JobStateName(job.state),
               source.empty() ? "?"
               : is_message   ? server::WithoutSecrets(source)
                              : source,
               output.empty() || is_message ? "" : " -> " + output, progress,
               message.empty() ? "" : ": " + message);
  PrintRemarks(queue, job, report);
}

void Print(const JobsFlags& flags, server::JobQueue& queue, const server::JobInfo& job) {
  flags.json ? PrintJson(queue, job) : PrintLine(queue, job);
  std::fflush(stdout);  // for who follows them through a pipe
}

absl::Status ListJobs(const JobsFlags& flags, server::JobQueue& queue) {
  server::JobFilter filter{.limit = flags.limit};
  if (!flags.state.empty()) filter.state = server::ParseJobState(flags.state);
  ASSIGN_OR_RETURN(const std::vector<server::JobInfo> jobs, queue.List(filter));
  for (const server::JobInfo& job : jobs) Print(flags, queue, job);
  if (flags.json) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto counts, queue.Count());
  const std::string summary = absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppend(out, count.second, " ", server::JobStateName(count.first));
  });
  absl::PrintF("%s\n", summary.empty() ? "no jobs" : summary);
  return absl::OkStatus();
}

// All jobs of a state, in pages: one answer with all would hold up a broker's other callers.
absl::Status AppendAll(server::JobQueue& queue, server::JobState state,
                       std::vector<std::string>& ids) {
  server::JobFilter filter{.state = state, .limit = 10'000};
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<server::JobInfo> jobs, queue.List(filter));
    for (const server::JobInfo& job : jobs) ids.push_back(job.id);
    if (std::ssize(jobs) < filter.limit) return absl::OkStatus();
    filter.before = jobs.front().id;
  }
}

absl::Status CancelJobs(const JobsFlags& flags, server::JobQueue& queue) {
  std::vector<std::string> ids = flags.cancelled;
  if (flags.cancel_all) {
    RETURN_IF_ERROR(AppendAll(queue, server::JobState::kWaiting, ids));
    RETURN_IF_ERROR(AppendAll(queue, server::JobState::kRunning, ids));
  }
  absl::Status first;
  int count = 0;
  for (const std::string& id : ids) {
    const absl::Status status = server::CancelJob(queue, id);
    count += status.ok() ? 1 : 0;
    // --all leaves out jobs with an end in the meantime.
    if (!(flags.cancel_all && absl::IsFailedPrecondition(status))) first.Update(status);
  }
  absl::PrintF("%d job%s cancelled\n", count, count == 1 ? "" : "s");
  return first;
}

int RunFollow(const JobsFlags& flags) {
  Interrupt interrupt;
  const absl::StatusOr<std::unique_ptr<server::JobQueue>> queue = flags.queue.Open(kError);
  if (!queue.ok()) return Fail(queue.status());
  const absl::StatusOr<bool> all_done = FollowJobs(
      **queue, flags.followed, [&](const server::JobInfo& job) { Print(flags, **queue, job); },
      RetryClock::Real(), interrupt.token());
  if (!all_done.ok()) return Fail(all_done.status());
  return *all_done ? kExitOk : kExitSomeFailed;
}

int RunJobs(const JobsFlags& flags, bool cancel) {
  const absl::StatusOr<std::unique_ptr<server::JobQueue>> queue = flags.queue.Open(kError);
  if (!queue.ok()) return Fail(queue.status());
  const absl::Status status = cancel ? CancelJobs(flags, **queue) : ListJobs(flags, **queue);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddJobsCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<JobsFlags>();
  CLI::App* command = app.add_subcommand("jobs", kJobsDescription);
  flags->queue.AddTo(*command);
  std::vector<std::string> states;
  for (const server::JobState state : server::kJobStates)
    states.emplace_back(server::JobStateName(state));
  command->add_option("--state", flags->state, "Only jobs that are so")
      ->type_name(absl::StrJoin(states, "|"))
      ->check(CLI::IsMember(states).description(""));
  command->add_option("-n,--limit", flags->limit, "Jobs to list")
      ->type_name("N")
      ->check(Between(1, 1'000'000'000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print a JSON object a job");
  CLI::App* cancel = command->add_subcommand("cancel", "Take jobs back that have not ended");
  cancel->fallthrough();  // --queue may come last
  CLI::Option* ids =
      cancel->add_option("ID", flags->cancelled, "Jobs, by the ids of 'upscale jobs'");
  cancel->add_flag("--all", flags->cancel_all, "All that wait or run")->excludes(ids);
  CLI::App* follow = command->add_subcommand(
      "follow", "Print jobs as they change, until all have ended; exit status 4: not all are done");
  follow->fallthrough();  // --json, too
  follow->add_option("ID", flags->followed, "Jobs, by the ids of 'upscale jobs'")->required();
  command->callback([flags, cancel, follow, &exit_code] {
    exit_code = follow->parsed() ? RunFollow(*flags) : RunJobs(*flags, cancel->parsed());
  });
}

}  // namespace upscaled::client
