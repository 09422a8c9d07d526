#include "server/jobs/async_jobs.h"

#include <span>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/base/error.h"
#include "server/jobs/cancel_job.h"
#include "server/jobs/job_message.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/task.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kSweepInterval = absl::Minutes(1);
// A job stored and not queued after this long never will be; one still being received is given up.
constexpr absl::Duration kNeverQueued = absl::Hours(1), kNeverReceived = absl::Hours(24);
constexpr absl::Duration kFullDelay = absl::Seconds(60);
// Bytes of each job in addition to its files: entries of folders, a row of the queue, and look-ups.
constexpr int64_t kJobBytes = int64_t{64} << 10;
constexpr size_t kCopyBytes = size_t{64} << 10;

absl::Status NoJob() {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnspecified,
                   "no job of this id is yours");
}

absl::Status InvalidQuery(const char* field, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption, message,
                   {{"field", field}});
}

absl::Status Full(absl::string_view whose, int64_t bytes, int64_t limit) {
  return MakeOverloaded(absl::StrCat("sources and results of ", whose, " would take ", bytes,
                                     " bytes; the limit is ", limit, " (job-store-bytes)"),
                        kFullDelay, {{"limit", "job-store-bytes"}});
}

int64_t SumOf(const std::map<std::string, int64_t>& bytes) {
  int64_t sum = 0;
  for (const auto& [tenant, count] : bytes) sum += count;
  return sum;
}

// 0 for a field other than a number.
int Number(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number_integer() ? field->get<int>() : 0;
}

AsyncJob ToJob(const JobInfo& info, bool has_result) {
  AsyncJob job{.id = info.id,
               .batch = info.labels.batch,
               .reference = info.labels.reference,
               .state = std::string(JobStateName(info.state)),
               .ended = HasEnded(info.state),
               .submitted = info.submitted,
               .changed = info.changed,
               .deliveries = info.deliveries,
               .tiles_done = info.progress.tiles_done,
               .tiles = info.progress.tiles};
  if (info.state == JobState::kFailed) job.failure = ReadFailure(info.report);
  if (info.state != JobState::kDone) return job;
  const nlohmann::json report = ParseShallow(info.report);
  if (has_result) job.result_name = std::filesystem::path(TextOf(report, "result")).stem().string();
  job.width_px = Number(report, "width_px");
  job.height_px = Number(report, "height_px");
  job.warnings = TextsOf(report, "warnings");
  return job;
}

JobWebhook ToWebhook(const Telling& telling) {
  if (telling.told) return {.state = "told", .tries = telling.tries};
  JobWebhook webhook{.state = telling.message.empty() ? "failed" : "waiting",
                     .tries = telling.tries};
  const bool good = telling.answer >= 200 && telling.answer <= 299;
  if (telling.tries == 0) return webhook;
  webhook.error = telling.answer == 0 || good ? "no whole answer came; the operator knows why"
                                              : absl::StrCat("the answer was ", telling.answer);
  return webhook;
}

std::optional<JobWebhook> WebhookOf(JobQueue& queue, const JobInfo& job) {
  if (TextOf(ParseShallow(job.task), "webhook").empty()) return std::nullopt;
  if (!HasEnded(job.state)) return JobWebhook{.state = "waiting"};
  const std::optional<Telling> telling = FindTelling(queue, job);
  return telling.has_value() ? std::optional(ToWebhook(*telling)) : std::nullopt;
}

// Tasks are JSON, and workers have folders of their own to start from.
absl::Status CheckStore(const std::string& folder) {
  if (absl::StartsWith(folder, "/") && TaskToJson({.source = folder}).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the store of jobs must be an absolute path in UTF-8, which ", folder, " is not"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AsyncJobs>> AsyncJobs::Open(Timer& timer, AsyncJobsOptions options) {
  return Open(timer, std::move(options),
              [](const std::string& address) { return OpenQueue(address); });
}

absl::StatusOr<std::unique_ptr<AsyncJobs>> AsyncJobs::Open(Timer& timer, AsyncJobsOptions options,
                                                           QueueOpener open_queue) {
  RETURN_IF_ERROR(CheckStore(options.store));
  ASSIGN_OR_RETURN(JobStore store, JobStore::Open(options.store));
  ASSIGN_OR_RETURN(std::unique_ptr<JobQueue> queue, open_queue(options.queue));
  std::unique_ptr<AsyncJobs> jobs(
      new AsyncJobs(timer, std::move(options), std::move(queue), std::move(store)));
  jobs->Sweep(absl::Now());
  return jobs;
}

AsyncJobs::AsyncJobs(Timer& timer, AsyncJobsOptions options, std::unique_ptr<JobQueue> queue,
                     JobStore store)
    : options_(std::move(options)),
      queue_(std::move(queue)),
      store_(std::move(store)),
      sweep_(
          timer, Timer::Length::kMayBlock, [this] { Sweep(absl::Now()); }, kSweepInterval) {}

std::string AsyncJobs::Batch::NewName() { return RandomUuid(); }

AsyncJobs::Batch::~Batch() {
  for (const Stored& job : stored_) jobs_.store_.Remove({.id = job.id, .whole = true});
}

absl::Status AsyncJobs::Batch::Add(ByteSource& source) {
  std::string id = RandomUuid();
  RETURN_IF_ERROR(jobs_.Store(id, tenant_, source));
  stored_.push_back({.id = std::move(id)});
  return absl::OkStatus();
}

absl::Status AsyncJobs::Batch::AddUrl(const std::string& url) {
  MemorySource nothing{std::string_view()};  // an empty file: the job's place in the store
  RETURN_IF_ERROR(Add(nothing));
  stored_.back().url = url;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AsyncJob>> AsyncJobs::Batch::Queue(
    const std::vector<JobRequest>& requests) {
  std::vector<NewJob> queued;
  std::vector<AsyncJob> told;
  const absl::Time now = absl::Now();
  for (size_t i = 0; i < requests.size(); ++i) {
    const JobRequest& request = requests[i];
    const Stored& stored = stored_[i];
    const JobLabels labels{.tenant = tenant_, .batch = name_, .reference = request.reference};
    const std::string& id = stored.id;
    const Task task{.source = stored.url.empty() ? jobs_.store_.Source(id).string() : stored.url,
                    .options = request.options,
                    .output = jobs_.store_.Result(id),
                    .webhook = request.webhook,
                    .reference = request.reference,
                    .shown_source = request.shown_source.empty() ? "upload" : request.shown_source,
                    .shown_output = absl::StrCat("/v1/jobs/", id, "/result")};
    ASSIGN_OR_RETURN(std::string text, TaskToJson(task));
    queued.push_back({.id = id, .task = std::move(text), .labels = labels});
    told.push_back(ToJob({.id = id, .submitted = now, .changed = now, .labels = labels},
                         /*has_result=*/false));
    if (!request.webhook.empty()) told.back().webhook = JobWebhook{.state = "waiting"};
  }
  if (const absl::Status done = jobs_.queue_->Enqueue(queued); !done.ok()) {
    jobs_.TakeBack(queued);
    return jobs_.Trouble(done);
  }
  stored_.clear();
  return told;
}

void AsyncJobs::TakeBack(const std::vector<NewJob>& jobs) {
  for (const NewJob& job : jobs) {
    const absl::Status cancelled = queue_->Cancel(job.id);
    if (absl::IsUnavailable(cancelled)) return;  // and each call would wait for it again
  }
}

absl::StatusOr<AsyncJob> AsyncJobs::Submit(const std::string& tenant, const JobRequest& request,
                                           ByteSource& source) {
  Batch batch(*this, tenant, "");
  RETURN_IF_ERROR(batch.Add(source));
  ASSIGN_OR_RETURN(std::vector<AsyncJob> jobs, batch.Queue({request}));
  return std::move(jobs.front());
}

absl::Status AsyncJobs::Store(const std::string& id, const std::string& tenant,
                              ByteSource& source) {
  RETURN_IF_ERROR(TakeRoom(tenant, kJobBytes));
  auto arrival = store_.Receive(id, tenant);
  if (!arrival.ok()) return Trouble(arrival.status());
  std::vector<uint8_t> bytes(kCopyBytes);
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, source.Read(bytes));
    if (count == 0) break;
    RETURN_IF_ERROR(TakeRoom(tenant, static_cast<int64_t>(count)));
    const absl::Status written = (*arrival)->Write(std::span(bytes).first(count));
    if (!written.ok()) return Trouble(written);
  }
  const absl::Status kept = (*arrival)->Keep();
  return kept.ok() ? kept : Trouble(kept);
}

absl::Status AsyncJobs::TakeRoom(const std::string& tenant, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const int64_t max_own = tenant.empty() ? options_.max_bytes : options_.max_bytes / 2;
  const int64_t all = SumOf(swept_bytes_) + SumOf(new_bytes_) + bytes;
  const int64_t own = swept_bytes_[tenant] + new_bytes_[tenant] + bytes;
  if (all > options_.max_bytes) return Full("all jobs", all, options_.max_bytes);
  if (own > max_own) return Full("your jobs", own, max_own);
  new_bytes_[tenant] += bytes;
  return absl::OkStatus();
}

absl::StatusOr<JobInfo> AsyncJobs::Look(const std::string& tenant, const std::string& id) {
  if (!CheckJobId(id).ok() || !store_.Has(id, tenant)) return NoJob();
  const auto jobs = queue_->List({.id = id, .limit = 1});
  if (!jobs.ok()) return Trouble(jobs.status());
  if (jobs->empty()) return NoJob();
  JobInfo job = jobs->front();
  if (HasEnded(job.state)) store_.RemoveSource(id);
  return job;
}

AsyncJob AsyncJobs::Show(const JobInfo& job) const {
  std::error_code ignored;
  AsyncJob shown = ToJob(job, std::filesystem::is_regular_file(store_.Result(job.id), ignored));
  shown.webhook = WebhookOf(*queue_, job);
  return shown;
}

absl::StatusOr<AsyncJob> AsyncJobs::Find(const std::string& tenant, const std::string& id) {
  ASSIGN_OR_RETURN(const JobInfo job, Look(tenant, id));
  return Show(job);
}

absl::StatusOr<std::vector<AsyncJob>> AsyncJobs::List(const std::string& tenant,
                                                      const JobQuery& query, std::string& last) {
  const std::optional<JobState> state = ParseJobState(query.state);
  if (!query.state.empty() && !state.has_value()) {
    return InvalidQuery("state", absl::StrCat("state is \"", query.state.substr(0, 64),
                                              "\"; it must be waiting, running, done, failed or "
                                              "cancelled"));
  }
  if (tenant.empty() && query.batch.empty()) {
    return InvalidQuery("batch", "callers without a key list the jobs of one batch: batch=ID");
  }
  if (!query.before.empty() && absl::IsNotFound(Look(tenant, query.before).status())) {
    return InvalidQuery("before", "before is no job of yours");
  }
  const auto found = queue_->List({.state = state,
                                   .tenant = tenant,
                                   .batch = query.batch,
                                   .reference = query.reference,
                                   .before = query.before,
                                   .limit = query.limit});
  if (!found.ok()) return Trouble(found.status());
  last = std::ssize(*found) == query.limit ? found->front().id : "";
  std::vector<AsyncJob> jobs;
  for (auto job = found->rbegin(); job != found->rend(); ++job) {
    // The store forgets jobs sooner than the queue.
    if (job->labels.tenant == tenant && store_.Has(job->id, tenant)) jobs.push_back(Show(*job));
  }
  return jobs;
}

absl::Status AsyncJobs::Cancel(const std::string& tenant, const std::string& id) {
  RETURN_IF_ERROR(Look(tenant, id).status());
  const absl::Status cancelled = CancelJob(*queue_, id);
  // FAILED_PRECONDITION: it has ended otherwise.
  if (!cancelled.ok() && !absl::IsFailedPrecondition(cancelled)) return Trouble(cancelled);
  store_.RemoveSource(id);
  store_.RemoveResult(id);
  return absl::OkStatus();
}

void AsyncJobs::Sweep(absl::Time now) {
  std::map<std::string, int64_t> found, counted;
  {
    absl::MutexLock lock(&mutex_);
    counted = new_bytes_;
  }
  bool queue_answers = true;  // once it does not, jobs count as they are until the next time
  for (const StoredJob& job : store_.List()) {
    bool over = false;
    if (queue_answers) {
      const absl::StatusOr<bool> known = IsOver(job, now);
      queue_answers = known.ok();
      over = known.value_or(false);
    }
    if (over) {
      store_.Remove(job);
    } else {
      found[job.tenant] += job.bytes + kJobBytes;
    }
  }
  absl::MutexLock lock(&mutex_);
  swept_bytes_ = std::move(found);
  for (const auto& [tenant, bytes] : counted) new_bytes_[tenant] -= bytes;
  std::erase_if(new_bytes_, [](const auto& entry) { return entry.second == 0; });
}

absl::StatusOr<bool> AsyncJobs::IsOver(const StoredJob& job, absl::Time now) {
  const absl::Duration age = now - job.changed;
  if (!job.whole) return age > kNeverReceived;
  if (job.orphan) return age > kNeverQueued;
  // The source went when the job was known to have ended.
  if (!job.source) return age > options_.retention;
  if (!CheckJobId(job.id).ok()) return age > kNeverQueued;
  // Only the queue decides: an unreadable file tells nothing about its job.
  const auto jobs = queue_->List({.id = job.id, .limit = 1});
  if (!jobs.ok()) {
    const absl::Status trouble = Trouble(jobs.status());
    if (absl::IsDataLoss(jobs.status())) return false;  // of this job's record alone, maybe
    return trouble;
  }
  if (jobs->empty()) return age > kNeverQueued;
  if (HasEnded(jobs->front().state)) store_.RemoveSource(job.id);
  return false;
}

absl::Status AsyncJobs::Trouble(const absl::Status& error) const {
  if (options_.warn != nullptr) options_.warn(error);
  return WithRetryDelay(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                                  "the queue of jobs, or their store, cannot be used now"),
                        absl::Seconds(1));
}

}  // namespace upscaled::server
