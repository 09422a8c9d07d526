// Models that are ready to run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"

namespace upscaled::server {

// Compiles each variant when it is first asked for, and keeps it. Thread safe.
class ModelCache {
 public:
  // `backend` must outlive it.
  explicit ModelCache(Backend& backend) : backend_(backend) {}

  // Loads and compiles on the calling thread if nobody has. Callers who ask for what another one is
  // loading wait for it and share its outcome; nobody else waits. A failure is not kept: the next
  // caller tries again. UNIMPLEMENTED when the device cannot run the network or the precision,
  // INTERNAL when the weights cannot be read, RESOURCE_EXHAUSTED (kOverloaded, with a retry delay)
  // when there is no memory for them.
  absl::StatusOr<std::shared_ptr<const Executable>> Get(const ModelCard& card,
                                                        const ModelVariant& variant,
                                                        Precision precision)
      ABSL_LOCKS_EXCLUDED(mutex_);

  int loaded_count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::tuple<std::string, int, int, Precision>;  // name, scale, noise level
  struct Entry {
    bool loading = true;
    absl::StatusOr<std::shared_ptr<const Executable>> outcome = absl::UnknownError("loading");
  };

  Backend& backend_;
  mutable absl::Mutex mutex_;
  // Entries are shared with those who wait for them; guarded by mutex_, too.
  std::map<Key, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
