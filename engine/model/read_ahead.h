// The network of files read to list their model, so they are not read again at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/model/network.h"

namespace upscaled {

// Thread safe.
class ReadAhead {
 public:
  using MakeNetwork = std::function<absl::StatusOr<Network>()>;  // called once

  // `files_state`: their state before the read (FileState).
  void Keep(std::string files_state, MakeNetwork make) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    files_state_ = std::move(files_state);
    make_ = std::move(make);
  }

  void Keep(std::string files_state, Network network) {
    Keep(std::move(files_state),
         [kept = std::make_shared<Network>(std::move(network))] { return std::move(*kept); });
  }

  // The network of files in this state; null if it is not kept. Nothing is kept from then on.
  MakeNetwork Take(std::string_view files_state) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    MakeNetwork make = std::exchange(make_, nullptr);
    return files_state == files_state_ ? make : nullptr;
  }
  void Drop() { Take(""); }
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return make_ == nullptr;
  }

 private:
  mutable absl::Mutex mutex_;
  std::string files_state_ ABSL_GUARDED_BY(mutex_);
  MakeNetwork make_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled
