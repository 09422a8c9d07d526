#include "server/results/result_index.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace upscaled::server {
namespace {

// No second process gets in, and the write-ahead log needs no shared memory. Not synced: the files
// are not either, and what does not fit together is thrown away at the next start.
constexpr char kPrepare[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = OFF;"
    "CREATE TABLE IF NOT EXISTS results_1 ("
    "  name TEXT PRIMARY KEY, bytes INTEGER NOT NULL, digest BLOB NOT NULL,"
    "  media_type TEXT NOT NULL, header BLOB NOT NULL, source BLOB NOT NULL,"
    "  source_header BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS used_1 ON results_1 (used, bytes);"
    "CREATE INDEX IF NOT EXISTS source_1 ON results_1 (source);";

absl::Status ErrorOf(sqlite3* database) {
  const std::string message = absl::StrCat("the index of results: ", sqlite3_errmsg(database));
  switch (sqlite3_errcode(database)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(absl::StrCat(message, "; another process has it open"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// One run of a statement. Texts and blobs that it is given must outlive it.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    if (sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK) {
      status_ = ErrorOf(database);
    }
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int64_t value) { return Check(sqlite3_bind_int64(statement_, ++bound_, value)); }
  Statement& Bind(std::string_view text) {
    return Check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_STATIC,
                                     SQLITE_UTF8));
  }
  Statement& BindBlob(std::string_view bytes) {
    const char* const data = bytes.empty() ? "" : bytes.data();  // null means NULL
    return Check(sqlite3_bind_blob64(statement_, ++bound_, data, bytes.size(), SQLITE_STATIC));
  }

  // false: no more rows.
  absl::StatusOr<bool> Step() {
    RETURN_IF_ERROR(status_);
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
    return ErrorOf(database_);
  }
  absl::Status Run() { return Step().status(); }

  int64_t Integer(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) {
    const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return std::string(data == nullptr ? "" : data,
                       static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }
  Digest DigestAt(int column) { return DigestFromBytes(Bytes(column)).value_or(Digest{}); }

 private:
  Statement& Check(int code) {
    if (code != SQLITE_OK && status_.ok()) status_ = ErrorOf(database_);
    return *this;
  }

  sqlite3* const database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ResultIndex>> ResultIndex::Open(const std::filesystem::path& file) {
  // SQLite would let everybody read which digests there are, and those are as good as the images.
  const UniqueFd made(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(opened, sqlite3_close);
  if (database == nullptr) return absl::UnavailableError("no memory for the index of results");
  if (code != SQLITE_OK) return ErrorOf(opened);
  std::unique_ptr<ResultIndex> index(new ResultIndex(std::move(database)));
  RETURN_IF_ERROR(index->Prepare());
  return index;
}

absl::Status ResultIndex::Prepare() {
  absl::MutexLock lock(&mutex_);
  sqlite3* const database = database_.get();
  if (sqlite3_exec(database, kPrepare, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return ErrorOf(database);
  }
  Statement check(database, "PRAGMA quick_check(1)");
  ASSIGN_OR_RETURN(const bool any, check.Step());
  if (!any || check.Bytes(0) != "ok") return absl::DataLossError("the index of results is damaged");
  Statement last(database, "SELECT MAX(used) FROM results_1");
  RETURN_IF_ERROR(last.Run());
  last_use_ = last.Integer(0);
  return CountTotals();
}

absl::Status ResultIndex::CountTotals() {
  Statement sum(database_.get(), "SELECT COUNT(*), SUM(bytes) FROM results_1");
  RETURN_IF_ERROR(sum.Run());
  totals_ = {.results = sum.Integer(0), .bytes = sum.Integer(1)};
  return absl::OkStatus();
}

absl::Status ResultIndex::Insert(const StoredResult& result) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(RemoveLocked(result.name));
  Statement insert(database_.get(), "INSERT INTO results_1 VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(result.name).Bind(result.bytes).BindBlob(AsText(result.digest));
  insert.Bind(result.media_type).BindBlob(result.header).BindBlob(AsText(result.source));
  insert.BindBlob(result.source_header).Bind(++last_use_);
  RETURN_IF_ERROR(insert.Run());
  ++totals_.results;
  totals_.bytes += result.bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StoredResult>> ResultIndex::Use(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Statement use(database_.get(),
                "UPDATE results_1 SET used = ? WHERE name = ?"
                " RETURNING bytes, digest, media_type, header, source, source_header");
  use.Bind(last_use_ + 1).Bind(name);
  ASSIGN_OR_RETURN(const bool any, use.Step());
  if (!any) return std::nullopt;
  ++last_use_;
  StoredResult result{.name = name,
                      .bytes = use.Integer(0),
                      .digest = use.DigestAt(1),
                      .media_type = use.Bytes(2),
                      .header = use.Bytes(3),
                      .source = use.DigestAt(4),
                      .source_header = use.Bytes(5)};
  RETURN_IF_ERROR(use.Run());  // commits
  return result;
}

absl::StatusOr<std::optional<std::string>> ResultIndex::FindSource(const Digest& source) {
  absl::MutexLock lock(&mutex_);
  Statement find(database_.get(), "SELECT source_header FROM results_1 WHERE source = ? LIMIT 1");
  find.BindBlob(AsText(source));
  ASSIGN_OR_RETURN(const bool any, find.Step());
  return any ? std::optional(find.Bytes(0)) : std::nullopt;
}

absl::Status ResultIndex::Remove(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  return RemoveLocked(name);
}

absl::Status ResultIndex::RemoveLocked(const std::string& name) {
  Statement remove(database_.get(), "DELETE FROM results_1 WHERE name = ? RETURNING bytes");
  remove.Bind(name);
  ASSIGN_OR_RETURN(const bool any, remove.Step());
  if (!any) return absl::OkStatus();
  const int64_t bytes = remove.Integer(0);
  RETURN_IF_ERROR(remove.Run());
  --totals_.results;
  totals_.bytes -= bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ResultIndex::File>> ResultIndex::Oldest(int count) {
  absl::MutexLock lock(&mutex_);
  Statement list(database_.get(), "SELECT name, bytes FROM results_1 ORDER BY used LIMIT ?");
  list.Bind(count);
  std::vector<File> files;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, list.Step());
    if (!any) return files;
    files.push_back({.name = list.Bytes(0), .bytes = list.Integer(1)});
  }
}

ResultIndex::Totals ResultIndex::totals() const {
  absl::MutexLock lock(&mutex_);
  return totals_;
}

}  // namespace upscaled::server
