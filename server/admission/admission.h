// Admission to the server, in two steps. Each call takes a slot and the memory of its messages.
// Once the header of its image gives the cost, it reserves memory and work. A refused call is told
// when to come back.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/steady_wait.h"
#include "server/admission/address_shares.h"
#include "server/admission/admitted_work.h"
#include "server/admission/limits.h"
#include "server/admission/retry_turns.h"
#include "server/admission/tenant_quotas.h"
#include "server/base/payer.h"
#include "server/base/stall_meter.h"
#include "server/base/throughput.h"

namespace upscaled::server {

// The needs of a request in addition to its slot, known before its pixels are decoded.
struct ResourceRequest {
  int64_t memory_bytes = 0;
  // Scratch memory of all streams of the device for the request's tiles. Shared by all requests and
  // never given back: streams keep the scratch memory of their largest tile.
  int64_t scratch_bytes = 0;
  int64_t cost = 0;       // of the computation, in multiply-adds
  double speed = 0;       // of all devices together, in multiply-adds a second; 0: not known
  int device_class = -1;  // of the plan; -1: none
  // The memory counts in the share of the payer's address, the cost in its tenant's limits.
  Payer payer = {};
};

struct AdmissionState {
  int requests = 0;                        // calls with a slot
  int64_t calls_admitted = 0;              // slots given since the start
  int64_t queue_cost = 0;                  // admitted and not yet computed, in multiply-adds
  absl::Duration queue_time;               // to compute queue_cost at the recent speed
  std::vector<int64_t> class_queue_costs;  // for the device classes; may be too short for zeros
  int64_t memory_bytes = 0;                // the calls'
  int64_t scratch_bytes = 0;               // the device's streams'
  bool draining = false;
};

// Thread safe. Never waits: a request is admitted or refused at once. Must outlive its slots
// and reservations.
class AdmissionController {
 public:
  // Tells a call about the loss of its slot: a RESOURCE_EXHAUSTED (kOverloaded, with a retry
  // delay).
  using GiveWay = std::function<void(const absl::Status&)>;

 private:
  // A call with a slot, or one without its slot before its end.
  struct Holder {
    int64_t memory_bytes = 0;
    Payer payer;
    absl::Time begun;
    GiveWay give_way;  // null: it keeps its slot
    bool has_slot = true;
    StallMeter patience{kSlotPatience, kSlotBytes};  // with its client
  };

 public:
  // One of the concurrent calls, and its messages' memory; freed by destruction. If no slot is
  // free, a new call gets the slot of a call with a slow client: less than kSlotBytes moved in the
  // last kSlotPatience of waiting.
  class CallSlot {
   public:
    CallSlot() = default;
    CallSlot(CallSlot&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), holder_(other.holder_) {}
    CallSlot& operator=(CallSlot&& other) noexcept;
    ~CallSlot() { Release(); }
    void Release();

    // Between these the call waits for its client. `bytes`: moved during the wait. Both do nothing
    // without a slot.
    void BeginWait();
    void EndWait(int64_t bytes);

    // Gives the slot back, and all memory except `memory_bytes`.
    void KeepOnly(int64_t memory_bytes);

   private:
    friend class AdmissionController;
    CallSlot(AdmissionController* owner, std::list<Holder>::iterator holder)
        : owner_(owner), holder_(holder) {}
    AdmissionController* owner_ = nullptr;
    std::list<Holder>::iterator holder_;
  };

  // Reserved memory and queued work; freed by destruction. Thread compatible.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { Release(); }
    void Release();
    bool holds() const { return owner_ != nullptr; }
    // The payer of the request. Requires holds().
    Payer payer() const;

    // Replaces the reserved resources by `resources` of the same payer. Nothing of them may have
    // been computed. Requires holds(). As Reserve; not OK: nothing has changed.
    absl::Status Change(const ResourceRequest& resources);
    // Replaces the reserved memory by `memory_bytes`. false: they are not free, and nothing has
    // changed; unlike Change it takes no moment of refused callers. Requires holds().
    bool TryHold(int64_t memory_bytes);
    // Reserves more for the same request; this work is computed after the earlier parts. Requires
    // holds(). As Reserve.
    absl::StatusOr<Reservation> ReserveMore(const ResourceRequest& resources) const;
    // Gives back the computed work: `cost` so far. Several threads may report at once, in any
    // order, but not during Release and Change.
    void ReportProgress(int64_t cost);
    // Counts the memory in another address's share from now on, if it has room. Thread safe as
    // ReportProgress.
    void ChargeMemoryTo(const std::string& address);
    // Returns the others' work before the end of this request, in multiply-adds. `lasts`: assumes
    // each finished request is followed by a similar one. Requires holds().
    int64_t CostAhead(bool lasts = false) const;

   private:
    friend class AdmissionController;
    Reservation(AdmissionController* owner, const ResourceRequest& resources,
                AdmittedWork::Request work)
        : owner_(owner), resources_(resources), work_(work) {}
    AdmissionController* owner_ = nullptr;
    ResourceRequest resources_;
    std::optional<AdmittedWork::Request> work_;  // guarded by owner_->mutex_; set where it has one
  };

  // `clock` must outlive it.
  AdmissionController(const Limits& limits, int64_t memory_budget_bytes, const Clock& clock);

  const Limits& limits() const { return limits_; }
  int64_t memory_budget_bytes() const { return memory_budget_bytes_; }

  // First step, at the start of a call of `payer` with messages of up to `memory_bytes`. Errors:
  // - UNAVAILABLE (kDraining) while draining;
  // - RESOURCE_EXHAUSTED (kOverloaded, with a retry delay) if all slots are taken, or those of the
  //   address or the tenant, or while the tenant has sent too many bytes;
  // - as Reserve.
  // `give_way` ends the call. Another call's AdmitCall calls it at most once, without a lock,
  // perhaps a little after the slot's end; null: the call cannot be ended.
  absl::StatusOr<CallSlot> AdmitCall(int64_t memory_bytes = 0, Payer payer = {},
                                     GiveWay give_way = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether AdmitCall would find a slot now. Takes none. Errors as AdmitCall's for slots.
  absl::Status CheckCall(const Payer& payer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether less than half of the slots and of the memory is taken: calls may then wait with a slot
  // for their clients.
  bool HasPlenty() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether calls are admitted: UNAVAILABLE (kDraining) while draining.
  absl::Status CheckOpen() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts received bytes of a call's images. RESOURCE_EXHAUSTED (kOverloaded, with a retry delay)
  // if its tenant had sent too many before. A call may go on all the same.
  absl::Status Receive(const Payer& payer, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

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
  // AdmitCall. `displaced`: the call without its slot now, or null.
  absl::StatusOr<CallSlot> TakeSlot(int64_t memory_bytes, Payer payer, GiveWay give_way,
                                    GiveWay& displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a slot is free for the payer's address.
  bool HasFreeSlot(const Payer& payer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The refusal of a call for want of a slot; takes one of the moments to come back at.
  absl::Status RefuseForSlots(const Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The oldest call with a slot for the payer's; holders_.end(): none has lost its patience.
  std::list<Holder>::const_iterator FindStalled(const Payer& payer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeSlot(Holder& holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes all of `resources`, or nothing, as another part of the request `whole`; null: for a
  // request of its own.
  absl::StatusOr<Reservation> ReserveFor(const AdmittedWork::Request* whole,
                                         const ResourceRequest& resources)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes all of it but the work, or nothing.
  absl::Status Take(const ResourceRequest& resources) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes of the budget without the calls' and `scratch_bytes`.
  int64_t FreeMemory(int64_t scratch_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return memory_budget_bytes_ - scratch_bytes - state_.memory_bytes;
  }
  void CountMemory(int64_t memory_bytes, const Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes both sorts of memory from the budget and the address's share, or neither.
  absl::Status TakeMemory(int64_t memory_bytes, int64_t scratch_bytes, const Payer& payer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives memory back, without the scratch memory.
  void GiveMemory(const ResourceRequest& resources) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_.requests == 0 && state_.memory_bytes == 0;
  }
  // After a slot or memory was given back.
  void TellIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Idle()) idle_.NotifyAll();
  }
  absl::Status CheckShareOfMemory(int64_t memory_bytes, const Payer& payer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The verdict of the limits of the payer's tenant; OK without limits.
  absl::Status CheckTenantsCalls(const Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckTenantsCost(const Payer& payer, int64_t cost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time to compute `cost` at the speed of the admitted work, otherwise at the recent speed
  // (low after little work); zero: not known.
  absl::Duration TimeFor(double cost) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The delay of a refusal, a moment of the caller's own: the time to compute `cost`, or more. Room
  // for one more such caller becomes free each `step`.
  absl::Duration RetryDelay(const Payer& payer, double cost, absl::Duration step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same in shares of the admitted work.
  absl::Duration RetryDelayOfShare(const Payer& payer, double share, double step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time from one free slot to the next while all are taken.
  absl::Duration SlotInterval() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountSlot(int change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time to compute `cost` of a payer with a limited tenant, at the tenant's recent speed,
  // otherwise at its share; zero: not known, or nothing.
  absl::Duration TimeFor(const Payer& payer, int64_t cost) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The limit's part of `cost` multiply-adds of one request in the queue.
  int64_t Counted(int64_t cost) const;
  // Changes the queued cost of a request for these resources to `now`. `computed`: by progress;
  // otherwise at the tenant's expense.
  void Requeue(AdmittedWork::Request& work, int64_t now, const ResourceRequest& resources,
               bool computed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const int64_t memory_budget_bytes_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  SteadyCondition idle_;
  std::list<Holder> holders_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  AdmissionState state_ ABSL_GUARDED_BY(mutex_);       // without queue_cost and queue_time
  AdmittedWork work_ ABSL_GUARDED_BY(mutex_);
  int64_t counted_cost_ ABSL_GUARDED_BY(mutex_) = 0;  // the limit's part of the queue's
  ThroughputMeter throughput_ ABSL_GUARDED_BY(mutex_);
  AddressShares slot_shares_ ABSL_GUARDED_BY(mutex_);
  AddressShares memory_shares_ ABSL_GUARDED_BY(mutex_);  // bytes
  TenantQuotas quotas_ ABSL_GUARDED_BY(mutex_);
  RetryTurns retry_turns_ ABSL_GUARDED_BY(mutex_);
  ThroughputMeter slot_ends_ ABSL_GUARDED_BY(mutex_);  // of calls, while all slots are taken
  int64_t slot_ends_seen_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace upscaled::server
