#include "server/jobs/nats_queue.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/jobs/broker_url.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr int kDefaultNatsPort = 4222;
constexpr int kMaxRivals = 20;  // that were faster with a record, one after the other
// In front of a duty's name, for the record of its last turn: no job's id has a dot.
constexpr char kTurn[] = "turn.";
constexpr char kAcknowledge[] = "+ACK", kInProgress[] = "+WPI", kAgain[] = "-NAK";

// The name of one lease: its number, and where answers go.
struct NatsLease {
  int64_t number = -1;
  std::string reply_to;
};

std::string ToHandle(const NatsLease& lease) {
  return absl::StrCat(lease.number, " ", lease.reply_to);
}

NatsLease ParseHandle(const std::string& handle) {
  NatsLease lease;
  std::string number;
  std::tie(number, lease.reply_to) =
      std::pair<std::string, std::string>(absl::StrSplit(handle, absl::MaxSplits(' ', 1)));
  if (!absl::SimpleAtoi(number, &lease.number)) lease.number = -1;
  return lease;
}

json ToJson(const JobLabels& labels) {
  return {{"tenant", labels.tenant}, {"batch", labels.batch}, {"reference", labels.reference}};
}

// Empty ones for the missing ones of `object`.
JobLabels ReadLabels(const json& object) {
  return {.tenant = TextOf(object, "tenant"),
          .batch = TextOf(object, "batch"),
          .reference = TextOf(object, "reference")};
}

// One line of ASCII.
std::string ToHeader(const JobLabels& labels) {
  return ToJson(labels).dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace

struct NatsQueue::Record {
  uint64_t number = 0;  // of submission
  std::string task;
  JobState state = JobState::kWaiting;
  int deliveries = 0;
  int64_t lease = 0;  // counts up
  std::string report;
  JobProgress progress;
  absl::Time submitted, changed;
  JobLabels labels;

  std::string ToText() const {
    json object = {{"number", number},
                   {"task", task},
                   {"state", std::string(JobStateName(state))},
                   {"deliveries", deliveries},
                   {"lease", lease},
                   {"report", report},
                   {"tiles_done", progress.tiles_done},
                   {"tiles", progress.tiles},
                   {"submitted_us", absl::ToUnixMicros(submitted)}};
    object.update(ToJson(labels));
    return object.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  // The record of a job before its first delivery.
  static Record Of(const NatsWork& work) {
    return {.number = work.number,
            .task = work.task,
            .submitted = work.submitted,
            .labels = ReadLabels(ParseShallow(work.labels))};
  }

  // DATA_LOSS for another text.
  static absl::StatusOr<Record> Parse(const std::string& id, const NatsRecord& text) {
    try {
      const json object = ParseShallow(text.text);
      Record record{.number = object.at("number").get<uint64_t>(),
                    .task = object.at("task").get<std::string>(),
                    .deliveries = object.at("deliveries").get<int>(),
                    .lease = object.at("lease").get<int64_t>(),
                    .report = object.at("report").get<std::string>(),
                    .progress = {.tiles_done = object.value("tiles_done", int64_t{0}),
                                 .tiles = object.value("tiles", int64_t{0})},
                    .submitted = absl::FromUnixMicros(object.at("submitted_us").get<int64_t>()),
                    .changed = text.changed,
                    .labels = ReadLabels(object)};
      const auto state = ParseJobState(object.at("state").get<std::string>());
      if (state.has_value()) {
        record.state = *state;
        return record;
      }
    } catch (const json::exception&) {
    }
    return absl::DataLossError(absl::StrCat("the record of job ", id, " in NATS is damaged"));
  }
};

absl::StatusOr<std::unique_ptr<JobQueue>> NatsQueue::Open(const std::string& url,
                                                          IfAbsent if_absent) {
  const bool tls = absl::StartsWith(url, "tls://");
  ASSIGN_OR_RETURN(BrokerUrl broker, ParseBrokerUrl(url, tls ? "tls" : "nats", kDefaultNatsPort));
  broker.tls = tls;
  ASSIGN_OR_RETURN(std::unique_ptr<NatsStreams> streams, NatsStreams::Open(broker, if_absent));
  return std::unique_ptr<JobQueue>(new NatsQueue(std::move(streams)));
}

absl::Status NatsQueue::Enqueue(std::span<const NewJob> jobs) {
  for (const NewJob& job : jobs) RETURN_IF_ERROR(CheckJobId(job.id));
  for (const NewJob& job : jobs) {
    // The message first: Begin can do without a record, but no worker would look for a lost
    // message.
    ASSIGN_OR_RETURN(const std::optional<uint64_t> number,
                     streams_->AddWork(job.id, job.task, ToHeader(job.labels)));
    if (!number.has_value()) continue;
    const Record record{
        .number = *number, .task = job.task, .submitted = absl::Now(), .labels = job.labels};
    // There is one when a worker was faster, or the job has ended long since.
    RETURN_IF_ERROR(streams_->Write(job.id, record.ToText(), /*revision=*/0).status());
  }
  return absl::OkStatus();
}

absl::Status NatsQueue::UseTerm(absl::Duration term) {
  {
    absl::MutexLock lock(&mutex_);
    if (term_ == term) return absl::OkStatus();
  }
  RETURN_IF_ERROR(streams_->SetTerm(term));
  absl::MutexLock lock(&mutex_);
  term_ = term;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LeasedJob>> NatsQueue::Lease(absl::Duration term) {
  RETURN_IF_ERROR(UseTerm(term));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<NatsWork> work, streams_->TakeWork());
    if (!work.has_value()) return std::nullopt;
    ASSIGN_OR_RETURN(std::optional<LeasedJob> job, Begin(*work));
    if (job.has_value()) return job;
  }
}

absl::StatusOr<std::optional<LeasedJob>> NatsQueue::Begin(const NatsWork& work) {
  const auto begin = [&work](Record& record) {
    if (HasEnded(record.state)) return false;
    if (record.number == 0) record = Record::Of(work);
    record.state = JobState::kRunning;
    ++record.deliveries;
    ++record.lease;
    record.progress = {};
    return true;
  };
  absl::StatusOr<Record> begun = Change(work.job, begin);
  if (absl::IsDataLoss(begun.status())) begun = FailDamaged(work, begun.status());
  ASSIGN_OR_RETURN(const Record record, std::move(begun));
  if (HasEnded(record.state)) {
    RETURN_IF_ERROR(DropWork(work.job, record, work.reply_to));
    return std::nullopt;
  }
  return LeasedJob{.id = work.job,
                   .task = record.task,
                   .delivery = record.deliveries,
                   .handle = ToHandle({record.lease, work.reply_to})};
}

absl::StatusOr<NatsQueue::Record> NatsQueue::FailDamaged(const NatsWork& work,
                                                         const absl::Status& why) {
  Record record = Record::Of(work);
  record.state = JobState::kFailed;
  record.report =
      json({{"code", "DATA_LOSS"}, {"reason", ""}, {"message", std::string(why.message())}}).dump();
  ASSIGN_OR_RETURN(const NatsRecord read, streams_->Read(work.job));
  const bool is_damaged = read.revision != 0 && !Record::Parse(work.job, read).ok();
  const absl::Status changed = absl::UnavailableError(
      absl::StrCat("the damaged record of job ", work.job, " was replaced meanwhile"));
  if (!is_damaged) return changed;
  ASSIGN_OR_RETURN(const bool written, streams_->Write(work.job, record.ToText(), read.revision));
  if (!written) return changed;
  return record;
}

absl::StatusOr<NatsQueue::Record> NatsQueue::Change(const std::string& id,
                                                    absl::FunctionRef<bool(Record&)> change) {
  for (int rivals = 0; rivals < kMaxRivals; ++rivals) {
    ASSIGN_OR_RETURN(const NatsRecord read, streams_->Read(id));
    Record record;
    if (read.revision != 0) {
      ASSIGN_OR_RETURN(record, Record::Parse(id, read));
    }
    if (!change(record)) return record;
    ASSIGN_OR_RETURN(const bool written, streams_->Write(id, record.ToText(), read.revision));
    if (written) return record;
  }
  return absl::UnavailableError(absl::StrCat("the record of job ", id, " is never left alone"));
}

absl::Status NatsQueue::DropWork(const std::string& id, const Record& record,
                                 const std::string& reply_to) {
  if (record.state == JobState::kFailed) {
    RETURN_IF_ERROR(streams_->AddDeadLetter(id, record.ToText()));
  }
  return streams_->Answer(reply_to, kAcknowledge);
}

absl::Status NatsQueue::OnLease(const LeasedJob& job, const std::string& answer,
                                absl::FunctionRef<void(Record&)> change) {
  const NatsLease lease = ParseHandle(job.handle);
  bool leased = false;
  const auto change_leased = [&](Record& record) {
    leased = record.state == JobState::kRunning && record.lease == lease.number;
    if (leased) change(record);
    return leased;
  };
  ASSIGN_OR_RETURN(const Record record, Change(job.id, change_leased));
  if (leased) {
    return HasEnded(record.state) ? DropWork(job.id, record, lease.reply_to)
                                  : streams_->Answer(lease.reply_to, answer);
  }
  return LeaseIsLost(job.id, record.state == JobState::kCancelled);
}

absl::Status NatsQueue::Extend(const LeasedJob& job, absl::Duration, const JobProgress& progress) {
  return OnLease(job, kInProgress, [&](Record& record) { record.progress = progress; });
}

absl::Status NatsQueue::Complete(const LeasedJob& job, const std::string& report) {
  return End(job, JobState::kDone, report);
}

absl::Status NatsQueue::Fail(const LeasedJob& job, const std::string& report) {
  return End(job, JobState::kFailed, report);
}

absl::Status NatsQueue::End(const LeasedJob& job, JobState state, const std::string& report) {
  return OnLease(job, kAcknowledge, [&](Record& record) {
    record.state = state;
    record.report = report;
  });
}

absl::Status NatsQueue::Retry(const LeasedJob& job, const std::string& report,
                              absl::Duration wait) {
  const int64_t wait_ns = absl::ToInt64Nanoseconds(wait);
  const std::string again =
      wait_ns > 0 ? absl::StrCat(kAgain, " {\"delay\": ", wait_ns, "}") : kAgain;
  return OnLease(job, again, [&](Record& record) {
    record.state = JobState::kWaiting;
    record.report = report;
  });
}

absl::Status NatsQueue::HandBack(const LeasedJob& job) {
  return OnLease(job, kAgain, [](Record& record) {
    record.state = JobState::kWaiting;
    --record.deliveries;
  });
}

absl::Status NatsQueue::Cancel(const std::string& id) {
  const auto cancel = [](Record& record) {
    if (record.number == 0 || HasEnded(record.state)) return false;
    record.state = JobState::kCancelled;
    return true;
  };
  ASSIGN_OR_RETURN(const Record record, Change(id, cancel));
  if (record.number == 0) return NoSuchJob(id);
  if (record.state == JobState::kCancelled) return absl::OkStatus();
  return CannotCancel(id, JobStateName(record.state));
}

absl::Status NatsQueue::ReadAll(absl::FunctionRef<void(const std::string&, Record)> receive,
                                absl::Status& damaged) {
  const auto parse = [&](const std::string& id, const NatsRecord& text) {
    if (absl::StartsWith(id, kTurn)) return;
    absl::StatusOr<Record> record = Record::Parse(id, text);
    damaged.Update(record.status());
    if (record.ok()) receive(id, *std::move(record));
  };
  return streams_->ReadAll(parse);
}

absl::Status NatsQueue::ReadMatching(const std::string& id,
                                     absl::FunctionRef<void(const std::string&, Record)> receive) {
  if (id.empty()) {
    absl::Status damaged;
    RETURN_IF_ERROR(ReadAll(receive, damaged));
    return damaged;
  }
  if (!CheckJobId(id).ok()) return absl::OkStatus();  // not to be asked for
  ASSIGN_OR_RETURN(const NatsRecord read, streams_->Read(id));
  if (read.revision == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(Record record, Record::Parse(id, read));
  receive(id, std::move(record));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JobInfo>> NatsQueue::List(const JobFilter& filter) {
  std::map<std::pair<uint64_t, std::string>, JobInfo> jobs;  // in order of submission
  const auto receive = [&](const std::string& id, Record record) {
    jobs[{record.number, id}] = {.id = id,
                                 .task = std::move(record.task),
                                 .state = record.state,
                                 .deliveries = record.deliveries,
                                 .report = std::move(record.report),
                                 .progress = record.progress,
                                 .submitted = record.submitted,
                                 .changed = record.changed,
                                 .labels = std::move(record.labels)};
  };
  RETURN_IF_ERROR(ReadMatching(filter.id, receive));
  if (!filter.before.empty()) {
    uint64_t number = 0;  // of no job
    RETURN_IF_ERROR(ReadMatching(
        filter.before, [&number](const std::string&, Record record) { number = record.number; }));
    jobs.erase(jobs.lower_bound({number, ""}), jobs.end());
  }
  std::vector<JobInfo> latest;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    JobInfo& info = job->second;
    if (!filter.Matches(info)) continue;
    if (static_cast<int>(latest.size()) >= filter.limit) break;
    latest.push_back(std::move(info));
  }
  std::reverse(latest.begin(), latest.end());
  return latest;
}

absl::StatusOr<std::map<JobState, int64_t>> NatsQueue::Count() {
  std::map<std::string, JobState> states;  // by job
  absl::Status passed_over;                // a damaged record has no state to count
  RETURN_IF_ERROR(
      ReadAll([&](const std::string& id, const Record& record) { states[id] = record.state; },
              passed_over));
  std::map<JobState, int64_t> counts;
  for (const auto& [id, state] : states) ++counts[state];
  return counts;
}

absl::StatusOr<int> NatsQueue::ForgetEnded(absl::Duration age, int limit) {
  const absl::Time latest = absl::Now() - age;
  std::vector<std::string> old;
  absl::Status passed_over;  // which the operator may want to see
  RETURN_IF_ERROR(ReadAll(
      [&](const std::string& id, const Record& record) {
        if (HasEnded(record.state) && record.changed < latest && std::ssize(old) < limit) {
          old.push_back(id);
        }
      },
      passed_over));
  for (const std::string& id : old) RETURN_IF_ERROR(streams_->Remove(id));
  return static_cast<int>(old.size());
}

absl::StatusOr<bool> NatsQueue::TakeTurn(const std::string& duty, absl::Duration interval) {
  const std::string key = absl::StrCat(kTurn, duty);
  ASSIGN_OR_RETURN(const NatsRecord last, streams_->Read(key));
  if (last.revision != 0 && absl::Now() - last.changed < interval) return false;
  return streams_->Write(key, "taken", last.revision);
}

}  // namespace upscaled::server
