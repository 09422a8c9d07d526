// Results on disk, for repeated requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/results/digest.h"
#include "server/results/flight.h"
#include "server/results/result_file.h"
#include "server/results/result_index.h"

namespace upscaled::server {

struct ResultStoreOptions {
  std::filesystem::path directory;  // made where there is none; of this process alone
  int64_t max_bytes = 0;            // of all files; a quarter is for those that are being written
  // Told human-readable troubles with disk or index, on any thread; nothing else fails then.
  std::function<void(const std::string& message)> warn;
};

struct ResultStoreCounts {
  int64_t results = 0;  // stored now
  int64_t bytes = 0;    // theirs
  int64_t evictions = 0;
  int64_t errors = 0;  // results that could not be stored or read, damaged ones included
};

// Stores results on disk. A file gets its result's name only when it is complete. After a kill,
// complete files remain, and the next start removes the others. The store checks a file's length
// always, and its digest when a process first serves it. A complete result evicts the least
// recently used ones. One too large for the space of unfinished files is never stored, and
// evicts nothing. Thread safe.
class ResultStore {
 public:
  // Makes index and files agree: removes files without an entry in the index, and entries without a
  // file; begins again if the index is damaged. UNAVAILABLE when the directory cannot be used,
  // FAILED_PRECONDITION when another process uses it, or it has other files in these folders.
  static absl::StatusOr<std::unique_ptr<ResultStore>> Open(ResultStoreOptions options);

  struct Found {
    StoredResult result;
    ResultFile file;
  };
  // nullopt: the tenant has none of this name, or it is not sound. `name` may be anything.
  std::optional<Found> Find(const std::string& name, const std::string& tenant)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // StoredResult::source_header of a source with a result of the tenant.
  std::optional<std::string> FindSource(const Digest& source, const std::string& tenant);

  // A result in writing; deleted unless committed. Must not outlive the store. Used by one thread,
  // except the reader that read_back gives.
  class Writer {
   public:
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // false: it will not be stored, and nothing more needs to be written.
    bool Append(std::span<const uint8_t> bytes);
    // Stores it. `result` lacks bytes and digest.
    void Commit(StoredResult result);
    // A reader of the appended bytes, also after this is gone. Thread safe.
    Flight::ReadBack read_back() const;

   private:
    friend class ResultStore;
    Writer(ResultStore& store, std::unique_ptr<PartialFile> file)
        : store_(store), file_(std::move(file)) {}
    void GiveUp();

    ResultStore& store_;
    std::unique_ptr<PartialFile> file_;  // null: given up, or committed
    Sha256 hash_;
  };
  // Null when there is trouble.
  std::unique_ptr<Writer> Create();

  ResultStoreCounts counts() const;

 private:
  ResultStore(ResultStoreOptions options, std::unique_ptr<ResultIndex> index)
      : options_(std::move(options)), index_(std::move(index)) {}
  absl::Status Reconcile();
  std::filesystem::path PathOf(const std::string& name) const;
  void OnTrouble(const absl::Status& status);
  // Whether the file agrees with the index.
  absl::Status Verify(const StoredResult& result, const ResultFile& file)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Insert(PartialFile& file, const StoredResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t max_writing_bytes() const { return options_.max_bytes / 4; }
  // Removes results until the others fit.
  void MakeRoom();

  const ResultStoreOptions options_;
  const std::unique_ptr<ResultIndex> index_;
  std::atomic<int64_t> writing_bytes_ = 0, evictions_ = 0, errors_ = 0;
  // Held while row and file change, or are looked up: a row has its file, and a file its row.
  absl::Mutex mutex_;
  std::unordered_set<std::string> verified_ ABSL_GUARDED_BY(mutex_);  // names, by this process
};

}  // namespace upscaled::server
