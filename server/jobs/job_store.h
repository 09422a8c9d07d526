// Where the sources of jobs wait for workers, and their results for clients.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/unique_fd.h"

namespace upscaled::server {

// One job, as the store has it.
struct StoredJob {
  std::string id;
  std::string tenant;
  int64_t bytes = 0;    // of all files
  absl::Time changed;   // when a file came or went last
  bool whole = false;   // else it is being received, or was when a server died
  bool source = false;  // is there
  // A worker made it for a job outside of the store: its submission failed, but the queue took it
  // all the same. It has no tenant.
  bool orphan = false;
};

// Stores jobs on disk, one folder per job, ID/, with three files:
//   tenant  the job's tenant
//   source  until the job has ended
//   result  once a worker has put it there
// A job being received lies in .new-ID/ until it is renamed. It is there completely or not at
// all, and survives a power failure. Servers and workers may share the store under the same
// path. Thread safe.
//
// Ids consist of letters, digits and "-". Errors are UNAVAILABLE and name the file.
class JobStore {
 public:
  // A job being received; removed with the object unless it was kept. Used by one thread.
  class Arrival {
   public:
    ~Arrival();
    Arrival(const Arrival&) = delete;
    Arrival& operator=(const Arrival&) = delete;

    // More of the source.
    absl::Status Write(std::span<const uint8_t> bytes);
    // All of it was written: the job is in the store from now on.
    absl::Status Keep();

   private:
    friend class JobStore;
    Arrival(std::filesystem::path hidden, std::filesystem::path folder, UniqueFd source)
        : hidden_(std::move(hidden)), folder_(std::move(folder)), source_(std::move(source)) {}

    const std::filesystem::path hidden_, folder_;
    UniqueFd source_;
    bool kept_ = false;
  };

  // Makes `folder`, an absolute path, if it is missing.
  static absl::StatusOr<JobStore> Open(const std::filesystem::path& folder);

  absl::StatusOr<std::unique_ptr<Arrival>> Receive(const std::string& id,
                                                   const std::string& tenant) const;
  // Whether the tenant has this job.
  bool Has(const std::string& id, const std::string& tenant) const;
  std::filesystem::path Source(const std::string& id) const { return folder_ / id / "source"; }
  std::filesystem::path Result(const std::string& id) const { return folder_ / id / "result"; }
  // If there is one.
  void RemoveSource(const std::string& id) const;
  void RemoveResult(const std::string& id) const;
  // All of a job from List.
  void Remove(const StoredJob& job) const;

  std::vector<StoredJob> List() const;

 private:
  explicit JobStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace upscaled::server
