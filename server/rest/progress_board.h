// How far requests are, by their ids.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

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

  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return state_.phase == Phase::kEnded;
  }

  // A listener was told its end.
  void SetTold(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    told_ = std::min(told_, now);
  }
  bool ToldBefore(absl::Time time) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return told_ < time;
  }

 private:
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
  absl::Time told_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

// A request by its id. Only its tenant knows the id.
struct TenantRequest {
  std::string tenant;  // empty: the server asks for no keys
  std::string id;
  auto operator<=>(const TenantRequest&) const = default;
};

// Knows the running requests, as many as there are slots, and how the last ones ended, for late
// listeners. Thread safe. Must outlive its entries.
class ProgressBoard {
 public:
  // Kept ends, the latest ones; each takes some KiB.
  static constexpr absl::Duration kKeptFor = absl::Seconds(10);
  static constexpr size_t kMaxKept = 256;

  // A request's place, for as long as it runs.
  class Entry {
   public:
    Entry() = default;
    Entry(Entry&& other) noexcept { *this = std::move(other); }
    Entry& operator=(Entry&& other) noexcept {
      Leave();
      board_ = std::exchange(other.board_, nullptr);
      request_ = std::move(other.request_);
      progress_ = std::move(other.progress_);
      return *this;
    }
    ~Entry() { Leave(); }

    // Null for an entry of no board.
    RequestProgress* operator->() const { return progress_.get(); }
    explicit operator bool() const { return progress_ != nullptr; }

   private:
    friend class ProgressBoard;
    void Leave() {
      if (board_ != nullptr) board_->Leave(request_, progress_);
    }
    ProgressBoard* board_ = nullptr;
    TenantRequest request_;
    std::shared_ptr<RequestProgress> progress_;
  };

  explicit ProgressBoard(const Clock& clock) : clock_(clock) {}

  // The later of two of one id is found. `total_bytes` as RequestProgress has it.
  Entry Enter(const TenantRequest& request, int64_t total_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // For listeners since then. Null: no such request runs or is kept, or others were told its end
  // before: the id may be used again, by the next try, and the listener waits for it.
  std::shared_ptr<RequestProgress> Find(const TenantRequest& request, absl::Time since)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Ended {
    absl::Time time;
    TenantRequest request;
    std::shared_ptr<RequestProgress> progress;
  };

  void Leave(const TenantRequest& request, const std::shared_ptr<RequestProgress>& progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Drop kept entries: the oldest one, or all old ones.
  void DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  absl::Mutex mutex_;
  std::map<TenantRequest, std::shared_ptr<RequestProgress>> requests_ ABSL_GUARDED_BY(mutex_);
  std::deque<Ended> ended_ ABSL_GUARDED_BY(mutex_);  // those that are kept, oldest first
};

}  // namespace upscaled::server
