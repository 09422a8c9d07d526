// Models ready to run.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "engine/base/cancellation.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"

namespace upscaled::server {

// Compiles each variant when it is first asked for, and keeps it while a listing has its files
// (ModelVariant::files_state) and there is room. Thread safe.
class ModelCache {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // `backend` must outlive it. Beyond this many bytes of packed weights, unused networks are
  // dropped, the longest unused first. The next request for one waits until it is loaded again.
  explicit ModelCache(Backend& backend, int64_t max_weight_bytes = kNoLimit)
      : backend_(backend), max_weight_bytes_(max_weight_bytes) {}

  // Returns the compiled network. Loads and compiles it on the calling thread if needed. Callers
  // asking for a network being loaded wait for it and share its outcome. `cancellation` (may be
  // null) ends their wait. Other callers do not wait. If memory is short, drops unused networks.
  // Does not keep failures: the next caller tries again.
  //   UNIMPLEMENTED                        the device cannot run the network or the precision
  //   INTERNAL                             the weights cannot be read
  //   FAILED_PRECONDITION (kReloadFailed)  the weights are not the listed ones
  //   RESOURCE_EXHAUSTED (kOverloaded)     no memory for the weights; with a retry delay
  //   the cancellation's reason
  absl::StatusOr<std::shared_ptr<const Executable>> Get(const ModelCard& card,
                                                        const ModelVariant& variant,
                                                        Precision precision,
                                                        Cancellation* cancellation = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  struct Loaded {
    std::string model;
    int scale;
    int noise_level;
    Precision precision;
  };
  // Ready networks.
  std::vector<Loaded> loaded() const ABSL_LOCKS_EXCLUDED(mutex_);
  int loaded_count() const { return static_cast<int>(loaded().size()); }
  int64_t max_weight_bytes() const { return max_weight_bytes_; }
  // Bytes of the ready networks, as the backend packs them.
  int64_t weight_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops unused networks until the packed weights are within the limit, as Get does; `all`: drops
  // every unused one. Returns the packed bytes.
  int64_t DropUnused(bool all) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets time pass for the compilations in progress, and returns the longest one's time.
  absl::Duration CompilingFor(absl::Duration passed) ABSL_LOCKS_EXCLUDED(compiling_mutex_);

  // Drops networks of files gone from all listings. Get does so, too.
  void DropUnlisted() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Name, scale, noise level, and the files; the address is never reused while the entry is there.
  using Key = std::tuple<std::string, int, int, Precision, const std::string*>;
  struct Entry {
    bool loading = true;
    uint64_t last_use = 0;
    bool lists_files = false;
    std::weak_ptr<const std::string> files_state;
    absl::StatusOr<std::shared_ptr<const Executable>> outcome = absl::UnknownError("loading");

    bool unlisted() const { return lists_files && files_state.expired(); }
    // By the cache only: others take it up through Get.
    bool unused() const { return outcome->use_count() == 1; }
  };
  using EntryMap = std::map<Key, std::shared_ptr<Entry>>;

  // Never throws: others wait for the outcome.
  absl::StatusOr<std::shared_ptr<const Executable>> Load(const ModelCard& card,
                                                         const ModelVariant& variant,
                                                         Precision precision);
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision)
      ABSL_LOCKS_EXCLUDED(compiling_mutex_);
  absl::StatusOr<std::shared_ptr<const Executable>> Await(const Entry& entry,
                                                          Cancellation* cancellation)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void DropUnlistedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct Surplus {
    std::vector<std::shared_ptr<Entry>> entries;  // to be freed without the lock
    int64_t bytes = 0;
  };
  // Takes out unused networks beyond this many bytes.
  Surplus TakeSurplus(int64_t max_weight_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Backend& backend_;
  const int64_t max_weight_bytes_;
  mutable absl::Mutex mutex_;
  // Entries are shared with their waiters; guarded by mutex_, too.
  EntryMap entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Mutex compiling_mutex_;
  std::list<absl::Duration> compiling_ ABSL_GUARDED_BY(compiling_mutex_);  // each one's time
};

}  // namespace upscaled::server
