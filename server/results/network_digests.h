// Digests of networks' files.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/model/repository.h"
#include "server/results/digest.h"

namespace upscaled::server {

// Thread safe.
class NetworkDigests {
 public:
  // The variant's files and their names, and its cells: the network depends on nothing else, as the
  // other sizes on its card must be those of its layers. Reads the files when they are first asked
  // for, one variant's at a time, as they are large and many requests may come at once; keeps the
  // digests while a model lists the files (ModelVariant::files_state). NOT_FOUND: files cannot be
  // read; FAILED_PRECONDITION: files have changed since their listing.
  absl::StatusOr<Digest> Of(const ModelCard& card, const ModelVariant& variant)
      ABSL_LOCKS_EXCLUDED(reading_, mutex_);

 private:
  using Entry = std::pair<std::weak_ptr<const std::string>, Digest>;

  std::optional<Digest> Known(const std::string* files) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex reading_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  // By the address of files_state, not used again while the entry is there.
  std::map<const std::string*, Entry> digests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
