#include "server/results/result_index.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// No second process gets in, and the write-ahead log needs no shared memory. Not synced: the files
// are not either, and entries and files without their other half are deleted at the next start.
constexpr char kPrepare[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = OFF;"
    "DROP TABLE IF EXISTS results_1;"
    "CREATE TABLE IF NOT EXISTS results_2 ("
    "  name TEXT PRIMARY KEY, tenant TEXT NOT NULL, bytes INTEGER NOT NULL, digest BLOB NOT NULL,"
    "  media_type TEXT NOT NULL, header BLOB NOT NULL, source BLOB NOT NULL,"
    "  source_header BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS used_2 ON results_2 (used, bytes);"
    "CREATE INDEX IF NOT EXISTS tenant_2 ON results_2 (tenant, used, bytes);"
    "CREATE INDEX IF NOT EXISTS source_2 ON results_2 (source);";

using Statement = SqliteFile::Statement;

Digest DigestAt(Statement& row, int column) {
  return DigestFromBytes(row.Bytes(column)).value_or(Digest{});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResultIndex>> ResultIndex::Open(const std::filesystem::path& file) {
  // Digests are as good as the images: SqliteFile keeps other users from reading them.
  ASSIGN_OR_RETURN(SqliteFile database, SqliteFile::Open(file, "the index of results"));
  std::unique_ptr<ResultIndex> index(new ResultIndex(std::move(database)));
  RETURN_IF_ERROR(index->Prepare());
  return index;
}

absl::Status ResultIndex::Prepare() {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(database_.Execute(kPrepare));
  RETURN_IF_ERROR(database_.Check());
  Statement last(database_, "SELECT MAX(used) FROM results_2");
  RETURN_IF_ERROR(last.Run());
  last_use_ = last.Integer(0);
  return CountTotals();
}

absl::Status ResultIndex::CountTotals() {
  Statement sums(database_, "SELECT tenant, COUNT(*), SUM(bytes) FROM results_2 GROUP BY tenant");
  totals_ = {};
  bytes_of_.clear();
  while (true) {
    ASSIGN_OR_RETURN(const bool any, sums.Step());
    if (!any) return absl::OkStatus();
    Count(sums.Bytes(0), sums.Integer(1), sums.Integer(2));
  }
}

void ResultIndex::Count(const std::string& tenant, int64_t results, int64_t bytes) {
  totals_.results += results;
  totals_.bytes += bytes;
  if ((bytes_of_[tenant] += bytes) == 0) bytes_of_.erase(tenant);
}

absl::Status ResultIndex::Insert(const StoredResult& result) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(RemoveLocked(result.name));
  Statement insert(database_, "INSERT INTO results_2 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(result.name).Bind(result.tenant).Bind(result.bytes).BindBlob(AsText(result.digest));
  insert.Bind(result.media_type).BindBlob(result.header).BindBlob(AsText(result.source));
  insert.BindBlob(result.source_header).Bind(++last_use_);
  RETURN_IF_ERROR(insert.Run());
  Count(result.tenant, 1, result.bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StoredResult>> ResultIndex::Use(const std::string& name,
                                                             const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  Statement use(database_,
                "UPDATE results_2 SET used = ? WHERE name = ? AND tenant = ?"
                " RETURNING bytes, digest, media_type, header, source, source_header");
  use.Bind(last_use_ + 1).Bind(name).Bind(tenant);
  ASSIGN_OR_RETURN(const bool any, use.Step());
  if (!any) return std::nullopt;
  ++last_use_;
  StoredResult result{.name = name,
                      .tenant = tenant,
                      .bytes = use.Integer(0),
                      .digest = DigestAt(use, 1),
                      .media_type = use.Bytes(2),
                      .header = use.Bytes(3),
                      .source = DigestAt(use, 4),
                      .source_header = use.Bytes(5)};
  RETURN_IF_ERROR(use.Run());  // commits
  return result;
}

absl::StatusOr<std::optional<std::string>> ResultIndex::FindSource(const Digest& source,
                                                                   const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  Statement find(database_,
                 "SELECT source_header FROM results_2 WHERE source = ? AND tenant = ? LIMIT 1");
  find.BindBlob(AsText(source)).Bind(tenant);
  ASSIGN_OR_RETURN(const bool any, find.Step());
  return any ? std::optional(find.Bytes(0)) : std::nullopt;
}

absl::Status ResultIndex::Remove(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  return RemoveLocked(name);
}

absl::Status ResultIndex::RemoveLocked(const std::string& name) {
  Statement remove(database_, "DELETE FROM results_2 WHERE name = ? RETURNING bytes, tenant");
  remove.Bind(name);
  ASSIGN_OR_RETURN(const bool any, remove.Step());
  if (!any) return absl::OkStatus();
  const int64_t bytes = remove.Integer(0);
  const std::string tenant = remove.Bytes(1);
  RETURN_IF_ERROR(remove.Run());
  Count(tenant, -1, -bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ResultIndex::File>> ResultIndex::List() {
  absl::MutexLock lock(&mutex_);
  Statement list(database_, "SELECT name, bytes FROM results_2");
  std::vector<File> files;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, list.Step());
    if (!any) return files;
    files.push_back({.name = list.Bytes(0), .bytes = list.Integer(1)});
  }
}

absl::StatusOr<std::optional<ResultIndex::File>> ResultIndex::NextToGo() {
  absl::MutexLock lock(&mutex_);
  const auto most =
      std::ranges::max_element(bytes_of_, {}, [](const auto& entry) { return entry.second; });
  if (most == bytes_of_.end()) return std::nullopt;
  Statement oldest(database_,
                   "SELECT name, bytes FROM results_2 WHERE tenant = ? ORDER BY used LIMIT 1");
  ASSIGN_OR_RETURN(const bool any, oldest.Bind(most->first).Step());
  if (!any) return std::nullopt;
  return File{.name = oldest.Bytes(0), .bytes = oldest.Integer(1)};
}

ResultIndex::Totals ResultIndex::totals() const {
  absl::MutexLock lock(&mutex_);
  return totals_;
}

}  // namespace upscaled::server
