// How far requests are, by their ids.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace upscaled::server {

// One request's. Thread safe.
class RequestProgress {
 public:
  enum class Phase : uint8_t {
    kQueued,   // its call has begun
    kStarted,  // its image was admitted
    kEnded,
  };
  struct State {
    Phase phase = Phase::kQueued;
    int64_t received_bytes = 0;  // of the image
    int64_t total_bytes = 0;     // of the body; 0: not known
    int64_t tiles_done = 0;
    int64_t tiles = 0;
    absl::Status status;       // of a request that has ended
    std::string summary_json;  // of one that has ended well
  };

  explicit RequestProgress(int64_t total_bytes) { state_.total_bytes = total_bytes; }

  void Receive(int64_t received_bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    state_.received_bytes = received_bytes;
  }

  void Start(int64_t tiles) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    state_.phase = Phase::kStarted;
    state_.tiles = tiles;
  }
  // Reports may come in any order.
  void Report(int64_t tiles_done) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (tiles_done > state_.tiles_done) state_.tiles_done = tiles_done;
  }
  void End(const absl::Status& status, std::string summary_json) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    state_.phase = Phase::kEnded;
    state_.status = status;
    state_.summary_json = std::move(summary_json);
  }
  State state() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return state_;
  }

 private:
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
};

// Knows the requests that run, as many as there are slots; listeners keep what they have found.
// Thread safe. Must outlive its entries.
class ProgressBoard {
 public:
  // A request's place, for as long as it runs.
  class Entry {
   public:
    Entry() = default;
    Entry(Entry&& other) noexcept { *this = std::move(other); }
    Entry& operator=(Entry&& other) noexcept {
      Remove();
      board_ = std::exchange(other.board_, nullptr);
      id_ = std::move(other.id_);
      progress_ = std::move(other.progress_);
      return *this;
    }
    ~Entry() { Remove(); }

    // Null for an entry of no board.
    RequestProgress* operator->() const { return progress_.get(); }
    explicit operator bool() const { return progress_ != nullptr; }

   private:
    friend class ProgressBoard;
    void Remove() {
      if (board_ != nullptr) board_->Remove(id_, progress_);
    }
    ProgressBoard* board_ = nullptr;
    std::string id_;
    std::shared_ptr<RequestProgress> progress_;
  };

  // Of two requests of one id the later one is found. `total_bytes` as RequestProgress has it.
  Entry Enter(const std::string& request_id, int64_t total_bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    Entry entry;
    entry.board_ = this;
    entry.id_ = request_id;
    entry.progress_ = std::make_shared<RequestProgress>(total_bytes);
    absl::MutexLock lock(&mutex_);
    requests_[request_id] = entry.progress_;
    return entry;
  }

  // Null: no such request runs.
  std::shared_ptr<const RequestProgress> Find(const std::string& request_id) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = requests_.find(request_id);
    return found == requests_.end() ? nullptr : found->second;
  }

 private:
  void Remove(const std::string& id, const std::shared_ptr<RequestProgress>& progress)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = requests_.find(id);
    if (found != requests_.end() && found->second == progress) requests_.erase(found);
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<RequestProgress>> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
