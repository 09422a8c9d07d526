#include "server/jobs/postgres_queue.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/jobs/broker_url.h"
#include "server/jobs/job_place.h"

namespace upscaled::server {
namespace {

constexpr int kPostgresDefaultPort = 5432;
constexpr absl::Duration kPostgresPatience = absl::Seconds(10);

// `state` is JobState's number. `due` is when a waiting job may be leased, and when the lease of a
// running one ends. `lease` counts up, to tell a worker from the next one. Texts of callers are
// bytes, because PostgreSQL's texts hold no byte 0. A job handed back is due since 1970, before all
// others.
constexpr char kPostgresPrepare[] =
    "SELECT pg_advisory_xact_lock(8001);"  // one process makes the tables, others wait
    "CREATE SCHEMA IF NOT EXISTS upscale;"
    "CREATE TABLE IF NOT EXISTS upscale.jobs_1 ("
    "  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    "  task BYTEA NOT NULL, state SMALLINT NOT NULL DEFAULT 0,"
    "  due TIMESTAMPTZ NOT NULL DEFAULT now(), deliveries INTEGER NOT NULL DEFAULT 0,"
    "  lease BIGINT NOT NULL DEFAULT 0, report BYTEA NOT NULL DEFAULT '',"
    "  submitted TIMESTAMPTZ NOT NULL DEFAULT now(), changed TIMESTAMPTZ NOT NULL DEFAULT now(),"
    "  tiles_done BIGINT NOT NULL DEFAULT 0, tiles BIGINT NOT NULL DEFAULT 0,"
    "  tenant BYTEA NOT NULL, batch BYTEA NOT NULL, reference BYTEA NOT NULL);"
    "CREATE INDEX IF NOT EXISTS jobs_1_tenant_due ON upscale.jobs_1 (tenant, due, number)"
    "  WHERE state IN (0, 1);"
    "CREATE INDEX IF NOT EXISTS jobs_1_ended ON upscale.jobs_1 (changed) WHERE state IN (2, 3, 4);"
    "CREATE INDEX IF NOT EXISTS jobs_1_state ON upscale.jobs_1 (state, number);"
    "CREATE INDEX IF NOT EXISTS jobs_1_tenant ON upscale.jobs_1 (tenant, number);"
    "CREATE INDEX IF NOT EXISTS jobs_1_tenant_state ON upscale.jobs_1 (tenant, state, number);"
    "CREATE INDEX IF NOT EXISTS jobs_1_batch ON upscale.jobs_1 (batch, number)"
    "  WHERE batch <> '';"
    "CREATE INDEX IF NOT EXISTS jobs_1_reference ON upscale.jobs_1 (tenant, reference, number)"
    "  WHERE reference <> '';"
    // The turns of tenants: the lowest is the next.
    "CREATE TABLE IF NOT EXISTS upscale.turns_1 (tenant BYTEA PRIMARY KEY, turn BIGINT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS upscale.duties_1 (duty TEXT PRIMARY KEY, next TIMESTAMPTZ NOT "
    "NULL);";

// In the order of their submission. A new tenant is among the next.
constexpr char kPostgresEnqueue[] =
    "WITH new AS (SELECT * FROM ROWS FROM (json_to_recordset($1::json) AS"
    "  (id text, task text, tenant text, batch text, reference text)) WITH ORDINALITY),"
    " added AS (INSERT INTO upscale.jobs_1 (id, task, tenant, batch, reference)"
    "  SELECT id, decode(task, 'hex'), decode(tenant, 'hex'), decode(batch, 'hex'),"
    "  decode(reference, 'hex') FROM new ORDER BY ordinality"
    "  ON CONFLICT (id) DO NOTHING RETURNING tenant)"
    " INSERT INTO upscale.turns_1 SELECT DISTINCT tenant,"
    "  (SELECT COALESCE(MIN(turn), 0) FROM upscale.turns_1) FROM added ORDER BY tenant"
    " ON CONFLICT (tenant) DO NOTHING";

// The tenants with a due job, in the order of their turns.
constexpr char kPostgresDueTenants[] =
    "SELECT encode(tenant, 'hex') FROM upscale.turns_1 AS turns WHERE EXISTS"
    " (SELECT 1 FROM upscale.jobs_1 WHERE tenant = turns.tenant AND state IN (0, 1)"
    "  AND due <= now()) ORDER BY turn, tenant";
// No row: other workers have taken the tenant's jobs meanwhile, or take them now.
constexpr char kPostgresLease[] =
    "WITH leased AS (UPDATE upscale.jobs_1 SET state = 1, deliveries = deliveries + 1,"
    "  due = now() + $2::float8 * interval '1 microsecond', lease = lease + 1, tiles_done = 0,"
    "  tiles = 0, changed = now() WHERE number ="
    "  (SELECT number FROM upscale.jobs_1 WHERE tenant = decode($1, 'hex') AND state IN (0, 1)"
    "   AND due <= now() ORDER BY due, number LIMIT 1 FOR UPDATE SKIP LOCKED)"
    "  RETURNING id, task, deliveries, lease),"
    " turned AS (UPDATE upscale.turns_1 SET turn = (SELECT MAX(turn) + 1 FROM upscale.turns_1)"
    "  WHERE tenant = decode($1, 'hex') AND EXISTS (SELECT 1 FROM leased))"
    " SELECT id, encode(task, 'hex'), deliveries, lease FROM leased";

constexpr char kPostgresExtend[] =
    "UPDATE upscale.jobs_1 SET due = now() + $3::float8 * interval '1 microsecond',"
    " tiles_done = $4, tiles = $5 WHERE id = $1 AND lease = $2 AND state = 1 RETURNING 1";
constexpr char kPostgresEndLease[] =
    "UPDATE upscale.jobs_1 SET state = $3, report = decode($4, 'hex'), changed = now(),"
    " due = now() + $5::float8 * interval '1 microsecond'"
    " WHERE id = $1 AND lease = $2 AND state = 1 RETURNING 1";
constexpr char kPostgresHandBack[] =
    "UPDATE upscale.jobs_1 SET state = 0, due = 'epoch', deliveries = deliveries - 1,"
    " changed = now() WHERE id = $1 AND lease = $2 AND state = 1 RETURNING 1";

constexpr char kPostgresCancel[] =
    "UPDATE upscale.jobs_1 SET state = 4, changed = now() WHERE id = $1 AND state IN (0, 1, 4)"
    " RETURNING 1";
constexpr char kPostgresReadState[] = "SELECT state FROM upscale.jobs_1 WHERE id = $1";

constexpr char kPostgresList[] =
    "SELECT id, encode(task, 'hex'), state, deliveries, encode(report, 'hex'),"
    " (extract(epoch FROM submitted) * 1000000)::bigint,"
    " (extract(epoch FROM changed) * 1000000)::bigint, tiles_done, tiles, encode(tenant, 'hex'),"
    " encode(batch, 'hex'), encode(reference, 'hex') FROM upscale.jobs_1 WHERE true";

constexpr char kPostgresCount[] = "SELECT state, COUNT(*) FROM upscale.jobs_1 GROUP BY state";

constexpr char kPostgresForgetEnded[] =
    "DELETE FROM upscale.jobs_1 WHERE number IN (SELECT number FROM upscale.jobs_1"
    " WHERE state IN (2, 3, 4) AND changed < now() - $1::float8 * interval '1 microsecond'"
    " ORDER BY changed LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1";
// No submission adds a job in between: each has the table's lock, too.
constexpr char kPostgresForgetTenants[] =
    "LOCK TABLE upscale.turns_1 IN SHARE ROW EXCLUSIVE MODE;"
    "DELETE FROM upscale.turns_1 AS turns"
    " WHERE NOT EXISTS (SELECT 1 FROM upscale.jobs_1 WHERE tenant = turns.tenant)";

// A turn more than an interval away was taken before the clock was set back.
constexpr char kPostgresTakeTurn[] =
    "INSERT INTO upscale.duties_1 AS duties VALUES"
    " ($1, now() + $2::float8 * interval '1 microsecond') ON CONFLICT (duty)"
    " DO UPDATE SET next = excluded.next WHERE duties.next <= now() OR duties.next > excluded.next"
    " RETURNING 1";

std::string MicrosecondsText(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Microseconds(duration));
}

std::string StateNumber(JobState state) { return absl::StrCat(static_cast<int>(state)); }

int64_t ReadNumber(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

JobState ReadState(const std::string& text) { return static_cast<JobState>(ReadNumber(text)); }

absl::Time ReadTime(const std::string& microseconds) {
  return absl::FromUnixMicros(ReadNumber(microseconds));
}

JobInfo ReadInfo(const std::vector<std::string>& row) {
  const auto bytes = [&row](size_t column) { return absl::HexStringToBytes(row[column]); };
  return {.id = row[0],
          .task = bytes(1),
          .state = ReadState(row[2]),
          .deliveries = static_cast<int>(ReadNumber(row[3])),
          .report = bytes(4),
          .progress = {.tiles_done = ReadNumber(row[7]), .tiles = ReadNumber(row[8])},
          .submitted = ReadTime(row[5]),
          .changed = ReadTime(row[6]),
          .labels = {.tenant = bytes(9), .batch = bytes(10), .reference = bytes(11)}};
}

// UNAVAILABLE for the result of a failed statement.
absl::StatusOr<std::vector<std::vector<std::string>>> ReadRows(const PGresult& result) {
  const ExecStatusType status = PQresultStatus(&result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    return absl::UnavailableError(absl::StrCat(
        "PostgreSQL: ", absl::StripTrailingAsciiWhitespace(PQresultErrorMessage(&result))));
  }
  std::vector<std::vector<std::string>> rows(static_cast<size_t>(PQntuples(&result)));
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int column = 0; column < PQnfields(&result); ++column) {
      rows[row].emplace_back(PQgetvalue(&result, static_cast<int>(row), column));
    }
  }
  return rows;
}

}  // namespace

void PostgresQueue::ConnectionDeleter::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

absl::StatusOr<std::unique_ptr<JobQueue>> PostgresQueue::Open(const std::string& url,
                                                              IfAbsent if_absent) {
  ASSIGN_OR_RETURN(const BrokerUrl broker, ParseBrokerUrl(url, "postgresql", kPostgresDefaultPort));
  std::unique_ptr<PostgresQueue> queue(
      new PostgresQueue(url, absl::StrCat(broker.host, ":", broker.port)));
  absl::MutexLock lock(&queue->mutex_);
  RETURN_IF_ERROR(queue->Connect());
  RETURN_IF_ERROR(queue->Prepare(if_absent));
  return std::unique_ptr<JobQueue>(std::move(queue));
}

absl::Status PostgresQueue::Connect() {
  const std::string patience_s = absl::StrCat(absl::ToInt64Seconds(kPostgresPatience));
  const std::string patience_ms = absl::StrCat(absl::ToInt64Milliseconds(kPostgresPatience));
  const char* const names[] = {"dbname", "connect_timeout", "tcp_user_timeout",
                               "fallback_application_name", nullptr};
  const char* const values[] = {url_.c_str(), patience_s.c_str(), patience_ms.c_str(), "upscale",
                                nullptr};
  connection_.reset(PQconnectdbParams(names, values, /*expand_dbname=*/1));
  if (PQstatus(connection_.get()) == CONNECTION_OK) return absl::OkStatus();
  const std::string why = connection_ == nullptr ? "no memory" : PQerrorMessage(connection_.get());
  connection_.reset();
  return absl::UnavailableError(absl::StrCat("cannot reach PostgreSQL at ", place_, ": ",
                                             absl::StripTrailingAsciiWhitespace(why)));
}

absl::Status PostgresQueue::Prepare(IfAbsent if_absent) {
  // A worker may lack the right to make tables.
  ASSIGN_OR_RETURN(const Rows made, Ask("SELECT to_regclass('upscale.duties_1') IS NOT NULL", {}));
  if (made.size() == 1 && made[0][0] == "t") return absl::OkStatus();
  if (if_absent == IfAbsent::kError) return NoSuchQueue(WithoutSecrets(url_));
  return Ask(kPostgresPrepare, {}).status();
}

absl::Status PostgresQueue::Lose(const std::string& why) {
  connection_.reset();
  return absl::UnavailableError(
      absl::StrCat("lost PostgreSQL: ", absl::StripTrailingAsciiWhitespace(why)));
}

absl::StatusOr<PostgresQueue::Rows> PostgresQueue::Ask(const char* statement,
                                                       const Arguments& arguments) {
  std::vector<const char*> values;
  for (const std::string& argument : arguments) values.push_back(argument.c_str());
  const absl::Time end = absl::Now() + kPostgresPatience;
  const int sent =
      values.empty()
          ? PQsendQuery(connection_.get(), statement)
          : PQsendQueryParams(connection_.get(), statement, static_cast<int>(values.size()),
                              nullptr, values.data(), nullptr, nullptr, /*resultFormat=*/0);
  return sent == 0 ? Lose(PQerrorMessage(connection_.get())) : AwaitRows(end);
}

absl::StatusOr<PostgresQueue::Rows> PostgresQueue::AwaitRows(absl::Time end) {
  absl::StatusOr<Rows> rows = Rows();
  while (true) {
    RETURN_IF_ERROR(AwaitResult(end));
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection_.get()),
                                                               &PQclear);
    if (result == nullptr) break;
    if (rows.ok()) rows = ReadRows(*result);
  }
  if (PQstatus(connection_.get()) != CONNECTION_OK) return Lose(PQerrorMessage(connection_.get()));
  return rows;
}

absl::Status PostgresQueue::AwaitResult(absl::Time end) {
  while (PQisBusy(connection_.get()) != 0) {
    pollfd socket{.fd = PQsocket(connection_.get()), .events = POLLIN};
    const int64_t left_ms = absl::ToInt64Milliseconds(end - absl::Now());
    const int ready = poll(&socket, 1, static_cast<int>(std::max<int64_t>(left_ms, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      return Lose(absl::StrCat("no answer in ", absl::FormatDuration(kPostgresPatience)));
    if (PQconsumeInput(connection_.get()) == 0) return Lose(PQerrorMessage(connection_.get()));
  }
  return absl::OkStatus();
}

absl::StatusOr<PostgresQueue::Rows> PostgresQueue::Run(const char* statement,
                                                       const Arguments& arguments) {
  absl::MutexLock lock(&mutex_);
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(silence_.Check(begin));
  const absl::Status connected = connection_ == nullptr ? Connect() : absl::OkStatus();
  absl::StatusOr<Rows> rows = connected.ok() ? Ask(statement, arguments) : connected;
  if (connection_ == nullptr) silence_.Note(rows.status(), begin);
  return rows;
}

absl::Status PostgresQueue::Enqueue(std::span<const NewJob> jobs) {
  constexpr size_t kJobsAStatement = 500;
  for (const NewJob& job : jobs) RETURN_IF_ERROR(CheckJobId(job.id));
  while (!jobs.empty()) {
    const size_t count = std::min(jobs.size(), kJobsAStatement);
    nlohmann::json rows = nlohmann::json::array();
    for (const NewJob& job : jobs.first(count)) {
      rows.push_back({{"id", job.id},
                      {"task", absl::BytesToHexString(job.task)},
                      {"tenant", absl::BytesToHexString(job.labels.tenant)},
                      {"batch", absl::BytesToHexString(job.labels.batch)},
                      {"reference", absl::BytesToHexString(job.labels.reference)}});
    }
    RETURN_IF_ERROR(Run(kPostgresEnqueue, {rows.dump()}).status());
    jobs = jobs.subspan(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LeasedJob>> PostgresQueue::Lease(absl::Duration term) {
  ASSIGN_OR_RETURN(const Rows tenants, Run(kPostgresDueTenants, {}));
  for (const std::vector<std::string>& tenant : tenants) {
    ASSIGN_OR_RETURN(const Rows leased, Run(kPostgresLease, {tenant[0], MicrosecondsText(term)}));
    if (leased.empty()) continue;
    const std::vector<std::string>& job = leased.front();
    return LeasedJob{.id = job[0],
                     .task = absl::HexStringToBytes(job[1]),
                     .delivery = static_cast<int>(ReadNumber(job[2])),
                     .handle = job[3]};
  }
  return std::nullopt;
}

absl::Status PostgresQueue::RunOnLease(const char* statement, const LeasedJob& job,
                                       Arguments more) {
  Arguments arguments = {job.id, absl::StrCat(ReadNumber(job.handle))};
  arguments.insert(arguments.end(), more.begin(), more.end());
  ASSIGN_OR_RETURN(const Rows leased, Run(statement, arguments));
  if (!leased.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<JobState> state, StateOf(job.id));
  return LeaseIsLost(job.id, state == JobState::kCancelled);
}

absl::StatusOr<std::optional<JobState>> PostgresQueue::StateOf(const std::string& id) {
  ASSIGN_OR_RETURN(const Rows rows, Run(kPostgresReadState, {id}));
  if (rows.empty()) return std::nullopt;
  return ReadState(rows[0][0]);
}

absl::Status PostgresQueue::Extend(const LeasedJob& job, absl::Duration term,
                                   const JobProgress& progress) {
  return RunOnLease(
      kPostgresExtend, job,
      {MicrosecondsText(term), absl::StrCat(progress.tiles_done), absl::StrCat(progress.tiles)});
}

absl::Status PostgresQueue::Complete(const LeasedJob& job, const std::string& report) {
  return EndLease(job, JobState::kDone, report);
}

absl::Status PostgresQueue::Fail(const LeasedJob& job, const std::string& report) {
  return EndLease(job, JobState::kFailed, report);
}

absl::Status PostgresQueue::Retry(const LeasedJob& job, const std::string& report,
                                  absl::Duration wait) {
  return EndLease(job, JobState::kWaiting, report, wait);
}

absl::Status PostgresQueue::EndLease(const LeasedJob& job, JobState state,
                                     const std::string& report, absl::Duration wait) {
  return RunOnLease(kPostgresEndLease, job,
                    {StateNumber(state), absl::BytesToHexString(report), MicrosecondsText(wait)});
}

absl::Status PostgresQueue::HandBack(const LeasedJob& job) {
  return RunOnLease(kPostgresHandBack, job, {});
}

absl::Status PostgresQueue::Cancel(const std::string& id) {
  ASSIGN_OR_RETURN(const Rows cancelled, Run(kPostgresCancel, {id}));
  if (!cancelled.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<JobState> state, StateOf(id));
  return state.has_value() ? CannotCancel(id, JobStateName(*state)) : NoSuchJob(id);
}

absl::StatusOr<std::vector<JobInfo>> PostgresQueue::List(const JobFilter& filter) {
  std::string statement = kPostgresList;
  Arguments arguments;
  const auto add = [&](absl::string_view condition, std::string argument) {
    arguments.push_back(std::move(argument));
    absl::StrAppend(&statement, " AND ", condition, arguments.size(), ")");
  };
  const auto add_label = [&](absl::string_view column, const std::string& label) {
    if (label.empty()) return;
    arguments.push_back(absl::BytesToHexString(label));
    absl::StrAppend(&statement, " AND ", column, " <> '' AND ", column, " = decode($",
                    arguments.size(), ", 'hex')");
  };
  if (filter.state.has_value()) add("state = ($", StateNumber(*filter.state));
  if (!filter.id.empty()) add("id = ($", filter.id);
  add_label("tenant", filter.tenant);
  add_label("batch", filter.batch);
  add_label("reference", filter.reference);
  if (!filter.before.empty()) {
    add("number < (SELECT number FROM upscale.jobs_1 WHERE id = $", filter.before);
  }
  absl::StrAppend(&statement, " ORDER BY number DESC LIMIT ", std::max(filter.limit, 0));
  ASSIGN_OR_RETURN(const Rows rows, Run(statement.c_str(), arguments));
  std::vector<JobInfo> jobs;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) jobs.push_back(ReadInfo(*row));
  return jobs;
}

absl::StatusOr<std::map<JobState, int64_t>> PostgresQueue::Count() {
  ASSIGN_OR_RETURN(const Rows rows, Run(kPostgresCount, {}));
  std::map<JobState, int64_t> counts;
  for (const std::vector<std::string>& row : rows) {
    counts[ReadState(row[0])] = ReadNumber(row[1]);
  }
  return counts;
}

absl::StatusOr<int> PostgresQueue::ForgetEnded(absl::Duration age, int limit) {
  ASSIGN_OR_RETURN(const Rows forgotten,
                   Run(kPostgresForgetEnded, {MicrosecondsText(age), absl::StrCat(limit)}));
  if (!forgotten.empty()) RETURN_IF_ERROR(Run(kPostgresForgetTenants, {}).status());
  return static_cast<int>(forgotten.size());
}

absl::StatusOr<bool> PostgresQueue::TakeTurn(const std::string& duty, absl::Duration interval) {
  ASSIGN_OR_RETURN(const Rows taken, Run(kPostgresTakeTurn, {duty, MicrosecondsText(interval)}));
  return !taken.empty();
}

}  // namespace upscaled::server
