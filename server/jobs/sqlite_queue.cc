#include "server/jobs/sqlite_queue.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// Times are microseconds since 1970. Times for readers are the system's. `due_us` is of the queue's
// own time, so setting the system's clock does not change it: for each start of a machine,
// `boots_1` has the time to add to the time since then. `due_us` is the earliest lease of a waiting
// job, and the end of a running one's lease; `lease` counts up, to tell a worker without its lease
// from the present one; `state` is JobState's number.
constexpr char kPrepareJobs[] =
    "PRAGMA journal_mode = WAL;"
    "CREATE TABLE IF NOT EXISTS jobs_1 ("
    "  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT NOT NULL,"
    "  state INTEGER NOT NULL, due_us INTEGER NOT NULL, deliveries INTEGER NOT NULL DEFAULT 0,"
    "  lease INTEGER NOT NULL DEFAULT 0, report TEXT NOT NULL DEFAULT '',"
    "  submitted_us INTEGER NOT NULL, changed_us INTEGER NOT NULL,"
    "  tiles_done INTEGER NOT NULL DEFAULT 0, tiles INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX IF NOT EXISTS jobs_1_due ON jobs_1 (due_us, number) WHERE state IN (0, 1);"
    "CREATE INDEX IF NOT EXISTS jobs_1_state ON jobs_1 (state, number);"
    "CREATE INDEX IF NOT EXISTS jobs_1_ended ON jobs_1 (changed_us) WHERE state IN (2, 3, 4);"
    "CREATE TABLE IF NOT EXISTS turns_1 (duty TEXT PRIMARY KEY, next_us INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS boots_1 (boot TEXT PRIMARY KEY, offset_us INTEGER NOT NULL);";

// Parts missing in a file of an older version: each is there if its first statement gives a row.
struct Upgrade {
  const char* is_done;
  const char* statements;
};
constexpr Upgrade kUpgrades[] = {
    {"SELECT 1 FROM pragma_table_info('jobs_1') WHERE name = 'tiles'",
     "ALTER TABLE jobs_1 ADD COLUMN tiles_done INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE jobs_1 ADD COLUMN tiles INTEGER NOT NULL DEFAULT 0;"},
    // Jobs by state, kept by triggers: counting a million rows takes too long.
    {"SELECT 1 FROM sqlite_master WHERE name = 'job_counts_1'",
     "CREATE TABLE job_counts_1 (state INTEGER PRIMARY KEY, jobs INTEGER NOT NULL);"
     "INSERT INTO job_counts_1 VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0);"
     "UPDATE job_counts_1 SET jobs ="
     " (SELECT COUNT(*) FROM jobs_1 WHERE jobs_1.state = job_counts_1.state);"
     "CREATE TRIGGER jobs_1_added AFTER INSERT ON jobs_1 BEGIN"
     " UPDATE job_counts_1 SET jobs = jobs + 1 WHERE state = NEW.state; END;"
     "CREATE TRIGGER jobs_1_moved AFTER UPDATE OF state ON jobs_1 WHEN OLD.state <> NEW.state BEGIN"
     " UPDATE job_counts_1 SET jobs = jobs - 1 WHERE state = OLD.state;"
     " UPDATE job_counts_1 SET jobs = jobs + 1 WHERE state = NEW.state; END;"
     "CREATE TRIGGER jobs_1_gone AFTER DELETE ON jobs_1 BEGIN"
     " UPDATE job_counts_1 SET jobs = jobs - 1 WHERE state = OLD.state; END;"},
    // Labels, and the turns of tenants with a job before its end. The trigger serves processes of
    // an older version, too.
    {"SELECT 1 FROM sqlite_master WHERE name = 'turns_of_tenants_1'",
     "ALTER TABLE jobs_1 ADD COLUMN tenant TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE jobs_1 ADD COLUMN batch TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE jobs_1 ADD COLUMN reference TEXT NOT NULL DEFAULT '';"
     "CREATE INDEX jobs_1_tenant_due ON jobs_1 (tenant, due_us, number) WHERE state IN (0, 1);"
     "CREATE INDEX jobs_1_tenant ON jobs_1 (tenant, number) WHERE tenant <> '';"
     "CREATE INDEX jobs_1_tenant_state ON jobs_1 (tenant, state, number) WHERE tenant <> '';"
     "CREATE INDEX jobs_1_batch ON jobs_1 (batch, number) WHERE batch <> '';"
     "CREATE INDEX jobs_1_reference ON jobs_1 (tenant, reference, number) WHERE reference <> '';"
     "CREATE TABLE turns_of_tenants_1 (tenant TEXT PRIMARY KEY, turn INTEGER NOT NULL);"
     "CREATE INDEX turns_of_tenants_1_turn ON turns_of_tenants_1 (turn, tenant);"
     "CREATE TRIGGER jobs_1_tenant_comes AFTER INSERT ON jobs_1 BEGIN"
     " INSERT INTO turns_of_tenants_1"
     " SELECT NEW.tenant, (SELECT COALESCE(MIN(turn), 0) FROM turns_of_tenants_1)"
     " WHERE NOT EXISTS (SELECT 1 FROM turns_of_tenants_1 WHERE tenant = NEW.tenant); END;"
     "INSERT INTO turns_of_tenants_1 SELECT '', 0"
     " WHERE EXISTS (SELECT 1 FROM jobs_1 WHERE state IN (0, 1));"},
};

constexpr char kAddJob[] =
    "INSERT INTO jobs_1 (id, task, state, due_us, submitted_us, changed_us, tenant, batch,"
    " reference) VALUES (?1, ?2, 0, ?3, ?4, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING";

// The queue's time goes on from the last job before this start, at least: the system's clock may be
// behind until it is set.
constexpr char kAddBoot[] =
    "INSERT INTO boots_1 SELECT ?1, MAX(?2, COALESCE((SELECT submitted_us FROM jobs_1"
    " ORDER BY number DESC LIMIT 1), 0)) - ?3 WHERE true ON CONFLICT (boot) DO NOTHING";
// The workers of an earlier start are gone, and its time may have been ahead of this one's. All
// waiting jobs are due.
constexpr char kEndWaits[] =
    "UPDATE jobs_1 SET due_us = ?2 WHERE state IN (0, 1) AND due_us > ?2"
    " AND EXISTS (SELECT 1 FROM boots_1 WHERE boot <> ?1)";
constexpr char kReadBoot[] = "SELECT offset_us FROM boots_1 WHERE boot = ?";

// The tenants with jobs before their end, in the order of their turns, each with the time of its
// first due job; NULL: all its jobs have ended.
constexpr char kReadTurns[] =
    "SELECT tenant, (SELECT due_us FROM jobs_1 INDEXED BY jobs_1_tenant_due"
    " WHERE tenant = turns_of_tenants_1.tenant AND state IN (0, 1) ORDER BY due_us LIMIT 1) AS due"
    " FROM turns_of_tenants_1 ORDER BY turn, tenant";
constexpr char kDropTurn[] = "DELETE FROM turns_of_tenants_1 WHERE tenant = ?";
constexpr char kTakeTenantsTurn[] =
    "UPDATE turns_of_tenants_1 SET turn = (SELECT MAX(turn) + 1 FROM turns_of_tenants_1)"
    " WHERE tenant = ?";

// Names its index: SQLite would prefer the one of states, and sort all waiting jobs.
constexpr char kLeaseJob[] =
    "UPDATE jobs_1 SET state = 1, due_us = ?2, deliveries = deliveries + 1, lease = lease + 1,"
    " tiles_done = 0, tiles = 0, changed_us = ?4 WHERE number = (SELECT number FROM jobs_1"
    " INDEXED BY jobs_1_tenant_due"
    " WHERE tenant = ?3 AND state IN (0, 1) AND due_us <= ?1 ORDER BY due_us, number LIMIT 1)"
    " RETURNING id, task, deliveries, lease";

// A commit at the mercy of a power failure costs no fsync. Lease and Extend may: the machine's
// workers are gone then, and the job is due again. All others wait for the disk.
constexpr char kDurable[] = "PRAGMA synchronous = FULL", kQuick[] = "PRAGMA synchronous = NORMAL";

constexpr char kExtendLease[] =
    "UPDATE jobs_1 SET due_us = ?1, tiles_done = ?2, tiles = ?3"
    " WHERE id = ?4 AND lease = ?5 AND state = 1 RETURNING number";

constexpr char kEndLease[] =
    "UPDATE jobs_1 SET state = ?1, due_us = ?2, report = ?3, changed_us = ?4"
    " WHERE id = ?5 AND lease = ?6 AND state = 1 RETURNING number";
// First in line again, and this delivery does not count.
constexpr char kHandBack[] =
    "UPDATE jobs_1 SET state = 0, due_us = 0, deliveries = deliveries - 1,"
    " changed_us = ?1"
    " WHERE id = ?2 AND lease = ?3 AND state = 1 RETURNING number";

constexpr char kCancelJob[] =
    "UPDATE jobs_1 SET state = 4, changed_us = ?1 WHERE id = ?2 AND state IN (0, 1, 4)"
    " RETURNING number";

constexpr char kReadState[] = "SELECT state FROM jobs_1 WHERE id = ?";

constexpr char kCountJobs[] = "SELECT state, jobs FROM job_counts_1 WHERE jobs > 0";

constexpr char kForgetEnded[] =
    "DELETE FROM jobs_1 WHERE number IN (SELECT number FROM jobs_1"
    " INDEXED BY jobs_1_ended"
    " WHERE state IN (2, 3, 4) AND changed_us < ?1 ORDER BY changed_us LIMIT ?2) RETURNING number";

// A turn more than an interval away was taken before the clock was set back.
constexpr char kTakeTurn[] =
    "INSERT INTO turns_1 VALUES (?1, ?2 + ?3) ON CONFLICT (duty)"
    " DO UPDATE SET next_us = excluded.next_us WHERE next_us <= ?2 OR next_us > ?2 + ?3"
    " RETURNING duty";

int64_t Number(JobState state) { return static_cast<int64_t>(state); }

// Steps to the end, where SQLite commits, and returns the number of rows before it.
absl::StatusOr<int> Finish(SqliteFile::Statement& statement) {
  for (int rows = 0;; ++rows) {
    ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return rows;
  }
}

// Writes all of `write`, or nothing.
absl::Status InTransaction(SqliteFile& database, absl::FunctionRef<absl::Status()> write) {
  RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  absl::Status status = write();
  if (status.ok()) status = database.Execute("COMMIT");
  if (!status.ok()) database.Execute("ROLLBACK").IgnoreError();  // SQLite may have done so
  return status;
}

absl::StatusOr<bool> HasRow(SqliteFile& database, const char* query) {
  SqliteFile::Statement statement(database, query);
  return statement.Step();
}

absl::Status Apply(const Upgrade& upgrade, SqliteFile& database) {
  ASSIGN_OR_RETURN(const bool is_done, HasRow(database, upgrade.is_done));
  if (is_done) return absl::OkStatus();
  return InTransaction(database, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const bool was_faster, HasRow(database, upgrade.is_done));  // another process
    return was_faster ? absl::OkStatus() : database.Execute(upgrade.statements);
  });
}

// The jobs of `filter`, the latest first. The statement has only the given conditions, because
// SQLite chooses an index before it knows the parameters.
std::string ListStatement(const JobFilter& filter) {
  std::string sql =
      "SELECT id, task, state, deliveries, report, submitted_us, changed_us, tiles_done, tiles,"
      " tenant, batch, reference FROM jobs_1 WHERE 1";
  if (filter.state.has_value()) sql += " AND state = ?";
  if (!filter.id.empty()) sql += " AND id = ?";
  // An index of nonempty labels is taken for statements with that condition.
  if (!filter.tenant.empty()) sql += " AND tenant = ? AND tenant <> ''";
  if (!filter.batch.empty()) sql += " AND batch = ? AND batch <> ''";
  if (!filter.reference.empty()) sql += " AND reference = ? AND reference <> ''";
  if (!filter.before.empty()) sql += " AND number < (SELECT number FROM jobs_1 WHERE id = ?)";
  return sql + " ORDER BY number DESC LIMIT ?";
}

void BindFilter(const JobFilter& filter, SqliteFile::Statement& list) {
  if (filter.state.has_value()) list.Bind(Number(*filter.state));
  for (const std::string* text :
       {&filter.id, &filter.tenant, &filter.batch, &filter.reference, &filter.before}) {
    if (!text->empty()) list.Bind(*text);
  }
  list.Bind(int64_t{std::max(filter.limit, 0)});
}

// All jobs of the statement, the first of them last.
absl::StatusOr<std::vector<JobInfo>> ReadJobs(SqliteFile::Statement& read) {
  std::vector<JobInfo> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, read.Step());
    if (!any) break;
    jobs.push_back(
        {.id = read.Bytes(0),
         .task = read.Bytes(1),
         .state = static_cast<JobState>(read.Integer(2)),
         .deliveries = static_cast<int>(read.Integer(3)),
         .report = read.Bytes(4),
         .progress = {.tiles_done = read.Integer(7), .tiles = read.Integer(8)},
         .submitted = absl::FromUnixMicros(read.Integer(5)),
         .changed = absl::FromUnixMicros(read.Integer(6)),
         .labels = {
             .tenant = read.Bytes(9), .batch = read.Bytes(10), .reference = read.Bytes(11)}});
  }
  std::reverse(jobs.begin(), jobs.end());
  return jobs;
}

int64_t LeaseOf(const LeasedJob& job) {
  int64_t lease = 0;
  return absl::SimpleAtoi(job.handle, &lease) ? lease : -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobQueue>> SqliteQueue::Open(const std::filesystem::path& folder,
                                                            SystemClock clock, IfAbsent if_absent,
                                                            absl::Duration patience) {
  const std::filesystem::path file = folder / "jobs.sqlite";
  std::error_code error;
  if (if_absent == IfAbsent::kError && !std::filesystem::exists(file, error) &&
      (!error || error == std::errc::no_such_file_or_directory)) {
    return NoSuchQueue(folder.native());
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder.native()));
  }
  ASSIGN_OR_RETURN(SqliteFile database,
                   SqliteFile::Open(file, absl::StrCat("the jobs in ", file.native()),
                                    SqliteFile::Users::kSeveral));
  const int64_t patience_ms = absl::ToInt64Milliseconds(patience);
  RETURN_IF_ERROR(database.Execute(absl::StrCat("PRAGMA busy_timeout = ", patience_ms).c_str()));
  RETURN_IF_ERROR(database.Execute(kPrepareJobs));
  for (const Upgrade& upgrade : kUpgrades) RETURN_IF_ERROR(Apply(upgrade, database));
  std::unique_ptr<SqliteQueue> queue(new SqliteQueue(std::move(database), std::move(clock)));
  RETURN_IF_ERROR(queue->FindTime());
  return queue;
}

absl::Status SqliteQueue::FindTime() {
  const SystemClock::Boot boot = clock_.SinceBoot();
  if (boot.id.empty()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return InTransaction(database_, [&]() -> absl::Status {
    mutex_.AssertHeld();
    ASSIGN_OR_RETURN(const bool is_known, ReadStart(boot));
    if (is_known) return absl::OkStatus();
    SqliteFile::Statement add(database_, kAddBoot);
    add.Bind(boot.id).Bind(absl::ToUnixMicros(clock_.Now()));
    RETURN_IF_ERROR(add.Bind(absl::ToInt64Microseconds(boot.age)).Run());
    ASSIGN_OR_RETURN(const bool is_added, ReadStart(boot));
    if (!is_added) return absl::DataLossError("the job queue has lost its time");
    SqliteFile::Statement end_waits(database_, kEndWaits);
    return end_waits.Bind(boot.id).Bind(absl::ToUnixMicros(started_ + boot.age)).Run();
  });
}

absl::StatusOr<bool> SqliteQueue::ReadStart(const SystemClock::Boot& boot) {
  SqliteFile::Statement read(database_, kReadBoot);
  ASSIGN_OR_RETURN(const bool any, read.Bind(boot.id).Step());
  if (any) started_ = absl::FromUnixMicros(read.Integer(0));
  return any;
}

absl::Time SqliteQueue::Time() const {
  const SystemClock::Boot boot = clock_.SinceBoot();
  return boot.id.empty() ? clock_.Now() : started_ + boot.age;
}

absl::Status SqliteQueue::Enqueue(std::span<const NewJob> jobs) {
  for (const NewJob& job : jobs) RETURN_IF_ERROR(CheckJobId(job.id));
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kDurable));
  return InTransaction(database_, [&] {
    mutex_.AssertHeld();
    return AddRows(jobs);
  });
}

absl::Status SqliteQueue::AddRows(std::span<const NewJob> jobs) {
  const int64_t due_us = absl::ToUnixMicros(Time()), now_us = absl::ToUnixMicros(clock_.Now());
  for (const NewJob& job : jobs) {
    SqliteFile::Statement add(database_, kAddJob);
    add.Bind(job.id).Bind(job.task).Bind(due_us).Bind(now_us);
    add.Bind(job.labels.tenant).Bind(job.labels.batch).Bind(job.labels.reference);
    RETURN_IF_ERROR(add.Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LeasedJob>> SqliteQueue::Lease(absl::Duration term) {
  const absl::Time now = Time();
  std::optional<LeasedJob> job;
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kQuick));
  RETURN_IF_ERROR(InTransaction(database_, [&]() -> absl::Status {
    mutex_.AssertHeld();
    ASSIGN_OR_RETURN(const std::optional<std::string> tenant, NextTenant(now));
    if (!tenant.has_value()) return absl::OkStatus();
    SqliteFile::Statement lease(database_, kLeaseJob);
    lease.Bind(absl::ToUnixMicros(now)).Bind(absl::ToUnixMicros(now + term)).Bind(*tenant);
    lease.Bind(absl::ToUnixMicros(clock_.Now()));
    ASSIGN_OR_RETURN(const bool any, lease.Step());
    if (!any) return absl::OkStatus();
    job = {.id = lease.Bytes(0),
           .task = lease.Bytes(1),
           .delivery = static_cast<int>(lease.Integer(2)),
           .handle = absl::StrCat(lease.Integer(3))};
    RETURN_IF_ERROR(Finish(lease).status());
    SqliteFile::Statement take_turn(database_, kTakeTenantsTurn);
    return take_turn.Bind(*tenant).Run();
  }));
  return job;
}

absl::StatusOr<std::optional<std::string>> SqliteQueue::NextTenant(absl::Time now) {
  std::optional<std::string> next;
  std::vector<std::string> gone;
  SqliteFile::Statement turns(database_, kReadTurns);
  while (!next.has_value()) {
    ASSIGN_OR_RETURN(const bool any, turns.Step());
    if (!any) break;
    if (turns.IsNull(1)) {
      gone.push_back(turns.Bytes(0));
    } else if (turns.Integer(1) <= absl::ToUnixMicros(now)) {
      next = turns.Bytes(0);
    }
  }
  for (const std::string& tenant : gone) {
    SqliteFile::Statement drop(database_, kDropTurn);
    RETURN_IF_ERROR(drop.Bind(tenant).Run());
  }
  return next;
}

absl::Status SqliteQueue::Extend(const LeasedJob& job, absl::Duration term,
                                 const JobProgress& progress) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kQuick));
  SqliteFile::Statement statement(database_, kExtendLease);
  statement.Bind(absl::ToUnixMicros(Time() + term));
  statement.Bind(progress.tiles_done).Bind(progress.tiles).Bind(job.id).Bind(LeaseOf(job));
  ASSIGN_OR_RETURN(const int leased, Finish(statement));
  return leased > 0 ? absl::OkStatus() : WhyNotLeased(job);
}

absl::Status SqliteQueue::Complete(const LeasedJob& job, const std::string& report) {
  return EndLease(job, JobState::kDone, report);
}

absl::Status SqliteQueue::Fail(const LeasedJob& job, const std::string& report) {
  return EndLease(job, JobState::kFailed, report);
}

absl::Status SqliteQueue::Retry(const LeasedJob& job, const std::string& report,
                                absl::Duration wait) {
  return EndLease(job, JobState::kWaiting, report, wait);
}

absl::Status SqliteQueue::EndLease(const LeasedJob& job, JobState state, const std::string& report,
                                   absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kDurable));
  SqliteFile::Statement statement(database_, kEndLease);
  statement.Bind(Number(state)).Bind(absl::ToUnixMicros(Time() + wait)).Bind(report);
  statement.Bind(absl::ToUnixMicros(clock_.Now())).Bind(job.id).Bind(LeaseOf(job));
  ASSIGN_OR_RETURN(const int leased, Finish(statement));
  return leased > 0 ? absl::OkStatus() : WhyNotLeased(job);
}

absl::Status SqliteQueue::HandBack(const LeasedJob& job) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kDurable));
  SqliteFile::Statement statement(database_, kHandBack);
  statement.Bind(absl::ToUnixMicros(clock_.Now())).Bind(job.id).Bind(LeaseOf(job));
  ASSIGN_OR_RETURN(const int leased, Finish(statement));
  return leased > 0 ? absl::OkStatus() : WhyNotLeased(job);
}

absl::Status SqliteQueue::Cancel(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kDurable));
  SqliteFile::Statement statement(database_, kCancelJob);
  statement.Bind(absl::ToUnixMicros(clock_.Now())).Bind(id);
  ASSIGN_OR_RETURN(const int cancelled, Finish(statement));
  if (cancelled > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<JobState> state, StateOf(id));
  return state.has_value() ? CannotCancel(id, JobStateName(*state)) : NoSuchJob(id);
}

absl::Status SqliteQueue::WhyNotLeased(const LeasedJob& job) {
  ASSIGN_OR_RETURN(const std::optional<JobState> state, StateOf(job.id));
  return LeaseIsLost(job.id, state == JobState::kCancelled);
}

absl::StatusOr<std::optional<JobState>> SqliteQueue::StateOf(const std::string& id) {
  SqliteFile::Statement read(database_, kReadState);
  read.Bind(id);
  ASSIGN_OR_RETURN(const bool any, read.Step());
  if (!any) return std::nullopt;
  return static_cast<JobState>(read.Integer(0));
}

absl::StatusOr<std::vector<JobInfo>> SqliteQueue::List(const JobFilter& filter) {
  absl::MutexLock lock(&mutex_);
  SqliteFile::Statement list(database_, ListStatement(filter).c_str());
  BindFilter(filter, list);
  return ReadJobs(list);
}

absl::StatusOr<std::map<JobState, int64_t>> SqliteQueue::Count() {
  absl::MutexLock lock(&mutex_);
  SqliteFile::Statement read(database_, kCountJobs);
  std::map<JobState, int64_t> counts;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, read.Step());
    if (!any) return counts;
    counts[static_cast<JobState>(read.Integer(0))] = read.Integer(1);
  }
}

absl::StatusOr<int> SqliteQueue::ForgetEnded(absl::Duration age, int limit) {
  absl::MutexLock lock(&mutex_);
  SqliteFile::Statement forget(database_, kForgetEnded);
  forget.Bind(absl::ToUnixMicros(clock_.Now() - age)).Bind(int64_t{limit});
  return Finish(forget);
}

absl::StatusOr<bool> SqliteQueue::TakeTurn(const std::string& duty, absl::Duration interval) {
  absl::MutexLock lock(&mutex_);
  SqliteFile::Statement take(database_, kTakeTurn);
  take.Bind(duty).Bind(absl::ToUnixMicros(clock_.Now())).Bind(absl::ToInt64Microseconds(interval));
  ASSIGN_OR_RETURN(const int taken, Finish(take));
  return taken > 0;
}

}  // namespace upscaled::server
