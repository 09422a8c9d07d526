// The index of stored results, next to their bytes: a table in SQLite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/sqlite.h"
#include "server/results/digest.h"

namespace upscaled::server {

struct StoredResult {
  std::string name;    // ResultName
  std::string tenant;  // whose it is; empty: everybody's
  int64_t bytes = 0;
  Digest digest = {};         // of the bytes
  std::string media_type;     // "image/png"
  std::string header;         // the caller's description of the result
  Digest source = {};         // of the source's bytes
  std::string source_header;  // the caller's description of the source
};

// Every change is whole even when the process is killed; after a power failure the latest may be
// lost. One process at a time. Thread safe: statements take turns, as SQLite's connections do.
// Errors are UNAVAILABLE with SQLite's message.
class ResultIndex {
 public:
  // Makes the file if it is missing. FAILED_PRECONDITION when another process has it open,
  // DATA_LOSS when it is not such a table or damaged.
  static absl::StatusOr<std::unique_ptr<ResultIndex>> Open(const std::filesystem::path& file);

  // In the place of one of the same name.
  absl::Status Insert(const StoredResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  // Null: the tenant has none. Makes it the latest used one.
  absl::StatusOr<std::optional<StoredResult>> Use(const std::string& name,
                                                  const std::string& tenant)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // source_header of any of the tenant's results of this source.
  absl::StatusOr<std::optional<std::string>> FindSource(const Digest& source,
                                                        const std::string& tenant)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Remove(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  struct File {
    std::string name;
    int64_t bytes = 0;
  };
  absl::StatusOr<std::vector<File>> List() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next result to be thrown out: the least recently used one of the tenant that has the most
  // bytes. So a tenant that stores much throws out its own. nullopt: there are no results.
  absl::StatusOr<std::optional<File>> NextToGo() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Totals {
    int64_t results = 0;
    int64_t bytes = 0;
  };
  Totals totals() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit ResultIndex(SqliteFile database) : database_(std::move(database)) {}
  absl::Status Prepare() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CountTotals() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RemoveLocked(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const std::string& tenant, int64_t results, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  SqliteFile database_ ABSL_GUARDED_BY(mutex_);
  int64_t last_use_ ABSL_GUARDED_BY(mutex_) = 0;
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> bytes_of_ ABSL_GUARDED_BY(mutex_);  // tenants; no zeros
};

}  // namespace upscaled::server
