// Calls without a slot: calls before their first message, and uploads on the disk.
//
// Each holds memory of the transport only. Their number is bounded, and one more makes the oldest
// go: an honest client sends its message at once. Uploads on the disk have settled: they are not
// told to go, and may have half of the places.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/admission/address_shares.h"

namespace upscaled::server {

// Thread safe. Must outlive its places.
class PendingCalls {
 private:
  struct Waiting {
    std::string address;
    std::function<void(const absl::Status&)> refuse;  // null: it was told to go, or has settled
    bool settled = false;
  };

 public:
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), waiting_(other.waiting_) {}
    Place& operator=(Place&& other) noexcept {
      Release();
      owner_ = std::exchange(other.owner_, nullptr);
      waiting_ = other.waiting_;
      return *this;
    }
    ~Place() { Release(); }
    void Release();
    // Keeps the place until it is released, however many calls come. RESOURCE_EXHAUSTED
    // (kOverloaded, with a retry delay) if half of the places have settled, in all or of this
    // address. OK without a place.
    absl::Status Settle();

   private:
    friend class PendingCalls;
    Place(PendingCalls* owner, std::list<Waiting>::iterator waiting)
        : owner_(owner), waiting_(waiting) {}
    PendingCalls* owner_ = nullptr;
    std::list<Waiting>::iterator waiting_;
  };

  PendingCalls(int max_calls, int max_per_address)
      : max_calls_(static_cast<size_t>(max_calls)),
        shares_(max_per_address),
        settled_shares_((max_per_address + 1) / 2) {}

  // Where there are too many, in all or of this address, the oldest of those is refused: on this
  // thread and with no lock held, with RESOURCE_EXHAUSTED (kOverloaded, with a retry delay).
  // `refuse` may be called until the place is released, and a little later.
  Place Enter(const std::string& address, std::function<void(const absl::Status&)> refuse)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const size_t max_calls_;
  absl::Mutex mutex_;
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  AddressShares shares_ ABSL_GUARDED_BY(mutex_);
  size_t settled_ ABSL_GUARDED_BY(mutex_) = 0;
  AddressShares settled_shares_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
