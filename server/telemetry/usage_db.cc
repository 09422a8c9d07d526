#include "server/telemetry/usage_db.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// No second process gets in. Days are texts, "2026-11-23", in their own order.
constexpr char kPrepareUsage[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "CREATE TABLE IF NOT EXISTS usage_1 ("
    "  day TEXT NOT NULL, tenant TEXT NOT NULL, calls INTEGER NOT NULL, refusals INTEGER NOT NULL,"
    "  cost INTEGER NOT NULL, received_bytes INTEGER NOT NULL, sent_bytes INTEGER NOT NULL,"
    "  source_pixels INTEGER NOT NULL, result_pixels INTEGER NOT NULL,"
    "  PRIMARY KEY (day, tenant)) WITHOUT ROWID;";

constexpr char kAddUsage[] =
    "INSERT INTO usage_1 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (day, tenant) DO UPDATE SET calls = calls + excluded.calls,"
    " refusals = refusals + excluded.refusals, cost = cost + excluded.cost,"
    " received_bytes = received_bytes + excluded.received_bytes,"
    " sent_bytes = sent_bytes + excluded.sent_bytes,"
    " source_pixels = source_pixels + excluded.source_pixels,"
    " result_pixels = result_pixels + excluded.result_pixels";

constexpr char kReadUsage[] =
    "SELECT day, tenant, calls, refusals, cost, received_bytes, sent_bytes, source_pixels,"
    " result_pixels FROM usage_1 WHERE day BETWEEN ? AND ? AND (? = '' OR tenant = ?)"
    " ORDER BY day, tenant LIMIT ?";

}  // namespace

absl::StatusOr<std::unique_ptr<UsageDb>> UsageDb::Open(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(SqliteFile database,
                   SqliteFile::Open(file, absl::StrCat("the usage in ", file.string())));
  RETURN_IF_ERROR(database.Execute(kPrepareUsage));
  RETURN_IF_ERROR(database.Check());
  return std::unique_ptr<UsageDb>(new UsageDb(std::move(database)));
}

absl::Status UsageDb::Add(const std::map<UsageKey, Usage>& usage) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute("BEGIN"));
  absl::Status status = AddRows(usage);
  if (status.ok()) status = database_.Execute("COMMIT");
  if (!status.ok()) database_.Execute("ROLLBACK").IgnoreError();  // SQLite may have done so
  return status;
}

absl::Status UsageDb::AddRows(const std::map<UsageKey, Usage>& usage) {
  for (const auto& [key, used] : usage) {
    const std::string day = absl::FormatCivilTime(key.day);
    SqliteFile::Statement add(database_, kAddUsage);
    add.Bind(day).Bind(key.tenant).Bind(used.calls).Bind(used.refusals).Bind(used.cost);
    add.Bind(used.received_bytes).Bind(used.sent_bytes);
    add.Bind(used.source_pixels).Bind(used.result_pixels);
    RETURN_IF_ERROR(add.Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UsageRow>> UsageDb::Read(const UsageQuery& query) {
  const std::string first = absl::FormatCivilTime(query.first);
  const std::string last = absl::FormatCivilTime(query.last);
  absl::MutexLock lock(&mutex_);
  SqliteFile::Statement read(database_, kReadUsage);
  read.Bind(first).Bind(last).Bind(query.tenant).Bind(query.tenant);
  read.Bind(static_cast<int64_t>(kMaxRows + 1));
  std::vector<UsageRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, read.Step());
    if (!any) return rows;
    if (rows.size() == kMaxRows) {
      return absl::OutOfRangeError(
          absl::StrCat("more than ", kMaxRows, " rows of usage; ask for fewer days or a tenant"));
    }
    UsageRow& row = rows.emplace_back();
    if (!absl::ParseCivilTime(read.Bytes(0), &row.key.day)) {
      return absl::DataLossError(absl::StrCat("\"", read.Bytes(0), "\" is no day of usage"));
    }
    row.key.tenant = read.Bytes(1);
    row.usage = {.calls = read.Integer(2),
                 .refusals = read.Integer(3),
                 .cost = read.Integer(4),
                 .received_bytes = read.Integer(5),
                 .sent_bytes = read.Integer(6),
                 .source_pixels = read.Integer(7),
                 .result_pixels = read.Integer(8)};
  }
}

}  // namespace upscaled::server
