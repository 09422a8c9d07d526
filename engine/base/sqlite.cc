#include "engine/base/sqlite.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace upscaled {

absl::StatusOr<SqliteFile> SqliteFile::Open(const std::filesystem::path& file, std::string role,
                                            Users users) {
  // SQLite would let everybody read it.
  const UniqueFd made(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(opened, sqlite3_close);
  if (database == nullptr) return absl::UnavailableError(absl::StrCat("no memory for ", role));
  SqliteFile sqlite(std::move(database), std::move(role), users);
  if (code != SQLITE_OK) return sqlite.Error();
  return sqlite;
}

absl::Status SqliteFile::Error() const {
  const std::string message = absl::StrCat(role_, ": ", sqlite3_errmsg(database_.get()));
  switch (sqlite3_errcode(database_.get())) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      if (users_ == Users::kSeveral) {
        return absl::UnavailableError(absl::StrCat(message, "; another process has held it long"));
      }
      return absl::FailedPreconditionError(absl::StrCat(message, "; another process has it open"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status SqliteFile::Execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error();
}

absl::Status SqliteFile::Check() {
  Statement check(*this, "PRAGMA quick_check(1)");
  ASSIGN_OR_RETURN(const bool any, check.Step());
  if (any && check.Bytes(0) == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(role_, " is damaged"));
}

SqliteFile::Statement::Statement(SqliteFile& file, const char* sql) : file_(file) {
  Check(sqlite3_prepare_v2(file_.database_.get(), sql, -1, &statement_, nullptr));
}

SqliteFile::Statement& SqliteFile::Statement::Bind(int64_t value) {
  return Check(sqlite3_bind_int64(statement_, ++bound_, value));
}

SqliteFile::Statement& SqliteFile::Statement::Bind(std::string_view text) {
  return Check(sqlite3_bind_text64(statement_, ++bound_, text.data() == nullptr ? "" : text.data(),
                                   text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

SqliteFile::Statement& SqliteFile::Statement::BindBlob(std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();  // null means NULL
  return Check(sqlite3_bind_blob64(statement_, ++bound_, data, bytes.size(), SQLITE_STATIC));
}

SqliteFile::Statement& SqliteFile::Statement::Check(int code) {
  if (code != SQLITE_OK && status_.ok()) status_ = file_.Error();
  return *this;
}

absl::StatusOr<bool> SqliteFile::Statement::Step() {
  RETURN_IF_ERROR(status_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
  return file_.Error();
}

std::string SqliteFile::Statement::Bytes(int column) {
  const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return std::string(data == nullptr ? "" : data,
                     static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

}  // namespace upscaled
