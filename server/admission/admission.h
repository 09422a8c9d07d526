// Admission to the server: every call takes a slot and the memory of its messages, and, once the
// header of its image says what it will cost, reserves that memory and those pixels, or is told
// when to come back.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/admission/limits.h"
#include "server/base/throughput.h"

namespace upscaled::server {

// The needs of a request beside its slot, known before its pixels are decoded.
struct ResourceRequest {
  int64_t memory_bytes = 0;
  // Scratch memory of all streams of the device for the request's tiles. Shared by all requests and
  // never given back: streams keep the scratch memory of the largest tile that they have seen.
  int64_t scratch_bytes = 0;
  int64_t source_pixels = 0;
};

struct AdmissionState {
  int requests = 0;  // calls with a slot
  int64_t queue_pixels = 0;
  int64_t memory_bytes = 0;   // the calls'
  int64_t scratch_bytes = 0;  // the device's streams'
  bool draining = false;
};

// Thread safe. Never waits: a request is admitted or refused at once. Must outlive what it hands
// out.
class AdmissionController {
 public:
  // One of the concurrent calls, and its messages' memory; freed by destruction.
  class CallSlot {
   public:
    CallSlot() = default;
    CallSlot(CallSlot&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), memory_bytes_(other.memory_bytes_) {}
    CallSlot& operator=(CallSlot&& other) noexcept;
    ~CallSlot() { Release(); }
    void Release();

   private:
    friend class AdmissionController;
    CallSlot(AdmissionController* owner, int64_t memory_bytes)
        : owner_(owner), memory_bytes_(memory_bytes) {}
    AdmissionController* owner_ = nullptr;
    int64_t memory_bytes_ = 0;
  };

  // Reserved memory and queued pixels; freed by destruction. Thread compatible.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { Release(); }
    void Release();

    // Gives back the share of the pixels that is computed: `done` of `total` tiles. Thread safe
    // beside itself, but not beside Release; reports may come in any order.
    void ReportProgress(int64_t done, int64_t total);

   private:
    friend class AdmissionController;
    Reservation(AdmissionController* owner, const ResourceRequest& resources)
        : owner_(owner), resources_(resources), queued_pixels_(resources.source_pixels) {}
    AdmissionController* owner_ = nullptr;
    ResourceRequest resources_;
    int64_t queued_pixels_ = 0;  // guarded by owner_->mutex_
  };

  // `clock` must outlive it.
  AdmissionController(const Limits& limits, int64_t memory_budget_bytes, const Clock& clock);

  const Limits& limits() const { return limits_; }
  int64_t memory_budget_bytes() const { return memory_budget_bytes_; }

  // First step, at the start of a call whose messages take up to `memory_bytes`. UNAVAILABLE
  // (kDraining) while draining; RESOURCE_EXHAUSTED (kOverloaded, with a retry delay) when all slots
  // are taken; else as Reserve.
  absl::StatusOr<CallSlot> AdmitCall(int64_t memory_bytes = 0) ABSL_LOCKS_EXCLUDED(mutex_);

  // Second step, for a call with a slot; works while draining. RESOURCE_EXHAUSTED (kOverloaded,
  // with a retry delay) when it does not fit now; INVALID_ARGUMENT (kLimitExceeded) when it never
  // will.
  absl::StatusOr<Reservation> Reserve(const ResourceRequest& resources) ABSL_LOCKS_EXCLUDED(mutex_);

  // No more calls from now on.
  void StartDraining() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no call has a slot and nothing is reserved (an answer may outlast its call's slot);
  // false when `timeout` passes first.
  bool AwaitIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  AdmissionState state() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Takes both sorts of memory from the budget, or neither.
  absl::Status TakeMemory(int64_t memory_bytes, int64_t scratch_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until `share` of what is admitted will have ended, going by the recent throughput.
  absl::Duration RetryDelay(double share) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreePixels(int64_t pixels, bool computed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const int64_t memory_budget_bytes_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  AdmissionState state_ ABSL_GUARDED_BY(mutex_);
  ThroughputMeter throughput_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
