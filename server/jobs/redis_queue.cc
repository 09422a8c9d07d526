#include "server/jobs/redis_queue.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/jobs/job_place.h"
#include "server/jobs/redis_scripts.h"

namespace upscaled::server {
namespace {

constexpr int kDefaultPort = 6379;
constexpr timeval kPatience = {.tv_sec = 10, .tv_usec = 0};

std::string StateText(JobState state) { return std::string(JobStateName(state)); }

absl::Time TimeOf(const std::string& microseconds) {
  int64_t value = 0;
  return absl::SimpleAtoi(microseconds, &value) ? absl::FromUnixMicros(value) : absl::UnixEpoch();
}

template <typename Number = int64_t>
Number NumberOf(const std::string& text) {
  Number value = 0;
  return absl::SimpleAtoi(text, &value) ? value : 0;
}

}  // namespace

struct RedisQueue::Reply {
  std::string text;
  std::vector<Reply> parts;

  static Reply Of(const redisReply& reply) {
    Reply result;
    if (reply.type == REDIS_REPLY_INTEGER) result.text = absl::StrCat(reply.integer);
    if (reply.str != nullptr) result.text.assign(reply.str, static_cast<size_t>(reply.len));
    for (size_t i = 0; i < reply.elements; ++i) result.parts.push_back(Of(*reply.element[i]));
    return result;
  }
};

void RedisQueue::ContextDeleter::operator()(redisContext* context) const { redisFree(context); }

absl::StatusOr<std::unique_ptr<JobQueue>> RedisQueue::Open(const std::string& url,
                                                           IfAbsent if_absent) {
  ASSIGN_OR_RETURN(BrokerUrl broker, ParseBrokerUrl(url, "redis", kDefaultPort));
  std::unique_ptr<RedisQueue> queue(new RedisQueue(std::move(broker)));
  absl::MutexLock lock(&queue->mutex_);
  RETURN_IF_ERROR(queue->Connect());
  if (if_absent == IfAbsent::kError) {
    const std::string& prefix = queue->broker_.prefix;
    ASSIGN_OR_RETURN(const Reply keys,
                     queue->Command({"EXISTS", prefix + ":number", prefix + ":due"}));
    if (keys.text == "0") return NoSuchQueue(WithoutSecrets(url));
  }
  return std::unique_ptr<JobQueue>(std::move(queue));
}

absl::Status RedisQueue::Connect() {
  context_.reset(redisConnectWithTimeout(broker_.host.c_str(), broker_.port, kPatience));
  if (context_ == nullptr || context_->err != 0) {
    const std::string why = context_ == nullptr ? "no memory" : context_->errstr;
    context_.reset();
    return absl::UnavailableError(
        absl::StrCat("cannot reach Redis at ", broker_.host, ":", broker_.port, ": ", why));
  }
  redisSetTimeout(context_.get(), kPatience);
  if (!broker_.password.empty()) {
    const std::string user = broker_.user.empty() ? "default" : broker_.user;
    const absl::Status admitted = Command({"AUTH", user, broker_.password}).status();
    if (!admitted.ok()) context_.reset();  // the next call asks again
    return admitted;
  }
  return absl::OkStatus();
}

absl::StatusOr<RedisQueue::Reply> RedisQueue::Command(const Arguments& words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  const std::unique_ptr<redisReply, decltype(&freeReplyObject)> reply(
      static_cast<redisReply*>(redisCommandArgv(context_.get(), static_cast<int>(words.size()),
                                                texts.data(), sizes.data())),
      &freeReplyObject);
  if (reply == nullptr) {  // the connection is lost, and made anew by the next call
    absl::Status lost = absl::UnavailableError(absl::StrCat("lost Redis: ", context_->errstr));
    context_.reset();
    return lost;
  }
  if (reply->type == REDIS_REPLY_ERROR) {
    return absl::UnavailableError(
        absl::StrCat("Redis: ", std::string(reply->str, static_cast<size_t>(reply->len))));
  }
  return Reply::Of(*reply);
}

absl::StatusOr<RedisQueue::Reply> RedisQueue::Run(const char* script, const Arguments& arguments) {
  Arguments words = {"EVAL", absl::StrCat(kRedisCommon, script), "1", broker_.prefix};
  words.insert(words.end(), arguments.begin(), arguments.end());
  absl::MutexLock lock(&mutex_);
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(silence_.Check(begin));
  const absl::Status connected = context_ == nullptr ? Connect() : absl::OkStatus();
  absl::StatusOr<Reply> reply = connected.ok() ? Command(words) : connected;
  if (context_ == nullptr) silence_.Note(reply.status(), begin);
  return reply;
}

absl::Status RedisQueue::Enqueue(std::span<const NewJob> jobs) {
  constexpr size_t kJobsAScript = 500;
  for (const NewJob& job : jobs) RETURN_IF_ERROR(CheckJobId(job.id));
  while (!jobs.empty()) {
    const size_t count = std::min(jobs.size(), kJobsAScript);
    Arguments arguments;
    for (const NewJob& job : jobs.first(count)) {
      arguments.insert(arguments.end(), {job.id, job.task, job.labels.tenant, job.labels.batch,
                                         job.labels.reference});
    }
    RETURN_IF_ERROR(Run(kRedisEnqueue, arguments).status());
    jobs = jobs.subspan(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LeasedJob>> RedisQueue::Lease(absl::Duration term) {
  ASSIGN_OR_RETURN(const Reply reply,
                   Run(kRedisLease, {absl::StrCat(absl::ToInt64Milliseconds(term))}));
  if (reply.parts.size() != 4) return std::nullopt;
  return LeasedJob{.id = reply.parts[0].text,
                   .task = reply.parts[1].text,
                   .delivery = NumberOf<int>(reply.parts[2].text),
                   .handle = reply.parts[3].text};
}

absl::Status RedisQueue::RunOnLease(const char* script, const LeasedJob& job, Arguments more) {
  Arguments arguments = {job.id, job.handle};
  arguments.insert(arguments.end(), more.begin(), more.end());
  ASSIGN_OR_RETURN(const Reply reply, Run(script, arguments));
  if (reply.text == "ok") return absl::OkStatus();
  return LeaseIsLost(job.id, reply.text == "cancelled");
}

absl::Status RedisQueue::Extend(const LeasedJob& job, absl::Duration, const JobProgress& progress) {
  return RunOnLease(kRedisExtend, job,
                    {absl::StrCat(progress.tiles_done), absl::StrCat(progress.tiles)});
}

absl::Status RedisQueue::Complete(const LeasedJob& job, const std::string& report) {
  return End(job, JobState::kDone, report);
}

absl::Status RedisQueue::Fail(const LeasedJob& job, const std::string& report) {
  return End(job, JobState::kFailed, report);
}

absl::Status RedisQueue::End(const LeasedJob& job, JobState state, const std::string& report) {
  return RunOnLease(kRedisEnd, job, {StateText(state), report});
}

absl::Status RedisQueue::Retry(const LeasedJob& job, const std::string& report,
                               absl::Duration wait) {
  return RunOnLease(kRedisRetry, job, {report, absl::StrCat(absl::ToInt64Microseconds(wait))});
}

absl::Status RedisQueue::HandBack(const LeasedJob& job) {
  return RunOnLease(kRedisHandBack, job, {});
}

absl::Status RedisQueue::Cancel(const std::string& id) {
  ASSIGN_OR_RETURN(const Reply reply, Run(kRedisCancel, {id}));
  if (reply.text == "ok") return absl::OkStatus();
  return reply.text.empty() ? NoSuchJob(id) : CannotCancel(id, reply.text);
}

absl::StatusOr<std::vector<JobInfo>> RedisQueue::List(const JobFilter& filter) {
  ASSIGN_OR_RETURN(const Reply reply,
                   Run(kRedisList, {filter.state.has_value() ? StateText(*filter.state) : "",
                                    filter.id, filter.tenant, filter.batch, filter.reference,
                                    filter.before, absl::StrCat(filter.limit)}));
  std::vector<JobInfo> jobs;
  for (const Reply& job : reply.parts) {
    if (job.parts.size() != 13) return absl::DataLossError("the jobs in Redis are damaged");
    const auto field = [&job](size_t i) -> const std::string& { return job.parts[i].text; };
    jobs.push_back({.id = field(0),
                    .task = field(1),
                    .state = ParseJobState(field(2)).value_or(JobState::kWaiting),
                    .deliveries = NumberOf<int>(field(3)),
                    .report = field(4),
                    .progress = {.tiles_done = NumberOf(field(7)), .tiles = NumberOf(field(8))},
                    .submitted = TimeOf(field(5)),
                    .changed = TimeOf(field(6)),
                    .labels = {.tenant = field(9), .batch = field(10), .reference = field(11)}});
  }
  return jobs;
}

absl::StatusOr<std::map<JobState, int64_t>> RedisQueue::Count() {
  ASSIGN_OR_RETURN(const Reply reply, Run(kRedisCount, {}));
  std::map<JobState, int64_t> counts;
  for (size_t i = 0; i < reply.parts.size() && i < std::size(kJobStates); ++i) {
    if (const int64_t count = NumberOf(reply.parts[i].text); count > 0)
      counts[kJobStates[i]] = count;
  }
  return counts;
}

absl::StatusOr<int> RedisQueue::ForgetEnded(absl::Duration age, int limit) {
  ASSIGN_OR_RETURN(
      const Reply reply,
      Run(kRedisForget, {absl::StrCat(absl::ToInt64Microseconds(age)), absl::StrCat(limit)}));
  return NumberOf<int>(reply.text);
}

absl::StatusOr<bool> RedisQueue::TakeTurn(const std::string& duty, absl::Duration interval) {
  const int64_t interval_ms = std::max<int64_t>(absl::ToInt64Milliseconds(interval), 1);
  ASSIGN_OR_RETURN(const Reply reply, Run(kRedisTakeTurn, {duty, absl::StrCat(interval_ms)}));
  return reply.text == "ok";
}

}  // namespace upscaled::server
