// Usage on disk: a table in SQLite, a row for each day and tenant.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/sqlite.h"
#include "server/telemetry/usage.h"

namespace upscaled::server {

// Usage behind a return of Add survives the process and the machine. One process at a time. Thread
// safe. Errors as SqliteFile's.
class UsageDb {
 public:
  // Creates a missing file.
  static absl::StatusOr<std::unique_ptr<UsageDb>> Open(const std::filesystem::path& file);

  // All of it or, after an error, nothing.
  absl::Status Add(const std::map<UsageKey, Usage>& usage) ABSL_LOCKS_EXCLUDED(mutex_);

  // By day, then by tenant. OUT_OF_RANGE for more than kMaxRows.
  absl::StatusOr<std::vector<UsageRow>> Read(const UsageQuery& query) ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr size_t kMaxRows = 10'000;  // of one Read

 private:
  explicit UsageDb(SqliteFile database) : database_(std::move(database)) {}
  absl::Status AddRows(const std::map<UsageKey, Usage>& usage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  SqliteFile database_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
