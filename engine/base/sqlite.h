// A file of SQLite's: statements with errors as a Status, and their rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sqlite3.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled {

// Not thread safe. Errors are UNAVAILABLE, FAILED_PRECONDITION when another process has the file
// of one process open, or DATA_LOSS when it is damaged or no such file; they say what file it is
// and what SQLite says.
class SqliteFile {
 public:
  // Whether the file is one process's. In one of several, a lock of another process is a matter of
  // time: UNAVAILABLE.
  enum class Users { kOne, kSeveral };

  // Creates a missing file, readable only by its owner. `role` begins all errors: "the index of
  // results".
  static absl::StatusOr<SqliteFile> Open(const std::filesystem::path& file, std::string role,
                                         Users users = Users::kOne);

  // Statements without parameters and rows.
  absl::Status Execute(const char* sql);
  // DATA_LOSS when the file is damaged.
  absl::Status Check();

  // One run of a statement. Its texts and blobs must outlive it.
  class Statement {
   public:
    Statement(SqliteFile& file, const char* sql);
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    Statement& Bind(int64_t value);
    Statement& Bind(std::string_view text);
    Statement& BindBlob(std::string_view bytes);

    // false: no more rows.
    absl::StatusOr<bool> Step();
    absl::Status Run() { return Step().status(); }

    // A column of the row, counted from 0.
    int64_t Integer(int column) { return sqlite3_column_int64(statement_, column); }
    std::string Bytes(int column);
    bool IsNull(int column) { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

   private:
    Statement& Check(int code);

    SqliteFile& file_;
    sqlite3_stmt* statement_ = nullptr;
    int bound_ = 0;
    absl::Status status_;
  };

 private:
  using Database = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

  SqliteFile(Database database, std::string role, Users users)
      : database_(std::move(database)), role_(std::move(role)), users_(users) {}
  absl::Status Error() const;

  Database database_;
  std::string role_;
  Users users_;
};

}  // namespace upscaled
