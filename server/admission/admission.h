// Admission to the server: every call takes a slot and the memory of its messages, and, once the
// header of its image says what it will cost, reserves that memory and that work, or is told when
// to come back.
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

// The needs of a request beside its slot, known before its pixels are decoded.
struct ResourceRequest {
  int64_t memory_bytes = 0;
  // Scratch memory of all streams of the device for the request's tiles. Shared by all requests and
  // never given back: streams keep the scratch memory of the largest tile that they have seen.
  int64_t scratch_bytes = 0;
  int64_t cost = 0;       // of the computation, in multiply-adds
  double speed = 0;       // at which all devices compute it, in these a second; 0: not known
  int device_class = -1;  // that it is planned for; -1: none
  // In the share of whose address the memory counts, and in whose tenant's limits the cost.
  Payer payer = {};
};

struct AdmissionState {
  int requests = 0;                        // calls with a slot
  int64_t calls_admitted = 0;              // slots given since the start
  int64_t queue_cost = 0;                  // admitted and not yet computed, in multiply-adds
  absl::Duration queue_time;               // until that is computed, at the speed of late
  std::vector<int64_t> class_queue_costs;  // for the device classes; may be too short for zeros
  int64_t memory_bytes = 0;                // the calls'
  int64_t scratch_bytes = 0;               // the device's streams'
  bool draining = false;
};

// Thread safe. Never waits: a request is admitted or refused at once. Must outlive what it hands
// out.
class AdmissionController {
 public:
  // Tells a call that it has lost its slot: with a RESOURCE_EXHAUSTED (kOverloaded, with a retry
  // delay).
  using GiveWay = std::function<void(const absl::Status&)>;

 private:
  // A call with a slot, or one that has lost it and has not ended yet.
  struct Holder {
    int64_t memory_bytes = 0;
    Payer payer;
    absl::Time begun;
    GiveWay give_way;  // null: it keeps its slot
    bool has_slot = true;
    StallMeter patience{kSlotPatience, kSlotBytes};  // with its client
  };

 public:
  // One of the concurrent calls, and its messages' memory; freed by destruction. While its call
  // waits for a client that has moved less than kSlotBytes in the last kSlotPatience of waiting, a
  // call that finds no free slot gets this one.
  class CallSlot {
   public:
    CallSlot() = default;
    CallSlot(CallSlot&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), holder_(other.holder_) {}
    CallSlot& operator=(CallSlot&& other) noexcept;
    ~CallSlot() { Release(); }
    void Release();

    // Between these the call waits for its client, which has moved `bytes` when the wait ends. Both
    // do nothing without a slot.
    void BeginWait();
    void EndWait(int64_t bytes);

    // Gives the slot back, and the memory except `memory_bytes`, which it keeps.
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
    // At whose expense it is. Requires holds().
    Payer payer() const;

    // For one that holds something: holds `resources`, of the same payer, from now on instead of
    // what it was made for, nothing of which has been computed. As Reserve; not OK: nothing has
    // changed.
    absl::Status Change(const ResourceRequest& resources);
    // Holds `memory_bytes` from now on instead of its memory, if they are free. Returns whether
    // they are, so a caller that goes on without them takes no moment of a refused one. Requires
    // holds().
    bool TryHold(int64_t memory_bytes);
    // For one that holds something: more for the same request, whose work is computed after all
    // that was reserved so before. As Reserve.
    absl::StatusOr<Reservation> ReserveMore(const ResourceRequest& resources) const;
    // Gives back what is computed: `cost` so far. Thread safe beside itself, but not beside Release
    // and Change; reports may come in any order.
    void ReportProgress(int64_t cost);
    // Counts the memory in another address's share from now on, if it has room. Thread safe as
    // ReportProgress.
    void ChargeMemoryTo(const std::string& address);
    // Returns the work of others, in multiply-adds, that runs before this request is complete.
    // `lasts`: assumes each finished request is followed by a similar one. Requires holds().
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

  // First step, at the start of a call of `payer` whose messages take up to
  // `memory_bytes`. UNAVAILABLE (kDraining) while draining; RESOURCE_EXHAUSTED (kOverloaded, with a
  // retry delay) when all slots, or those of the address or of the tenant, are taken, or while the
  // tenant has sent too many bytes; else as Reserve. `give_way`, for a call that can be ended, is
  // called at most once, by another call's AdmitCall and with no lock held; perhaps a little after
  // the slot's end.
  absl::StatusOr<CallSlot> AdmitCall(int64_t memory_bytes = 0, Payer payer = {},
                                     GiveWay give_way = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether AdmitCall would find a slot now, which stays free. Errors as AdmitCall's for slots.
  absl::Status CheckCall(const Payer& payer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether less than half of the slots and of the memory is taken: calls may then wait with a slot
  // for their clients.
  bool HasPlenty() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether calls are admitted: UNAVAILABLE (kDraining) while draining.
  absl::Status CheckOpen() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Notes bytes of a call's images that have come. RESOURCE_EXHAUSTED (kOverloaded, with a retry
  // delay) when its tenant had sent too many before; a call that has begun may go on all the same.
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
  // AdmitCall; `displaced` is the call that has lost its slot for it, or null.
  absl::StatusOr<CallSlot> TakeSlot(int64_t memory_bytes, Payer payer, GiveWay give_way,
                                    GiveWay& displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a slot is free for the payer's address.
  bool HasFreeSlot(const Payer& payer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The refusal of a call that no slot is free for; takes one of the moments to come back at.
  absl::Status RefuseForSlots(const Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The oldest call whose slot the payer's may get; holders_.end(): none has lost its patience.
  std::list<Holder>::const_iterator FindStalled(const Payer& payer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeSlot(Holder& holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes all of it for a request, of which this is a part, or nothing. `whole` is null for one of
  // its own.
  absl::StatusOr<Reservation> ReserveFor(const AdmittedWork::Request* whole,
                                         const ResourceRequest& resources)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes all of it but the work, or nothing.
  absl::Status Take(const ResourceRequest& resources) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes of the budget that neither calls nor `scratch_bytes` hold.
  int64_t FreeMemory(int64_t scratch_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return memory_budget_bytes_ - scratch_bytes - state_.memory_bytes;
  }
  void CountMemory(int64_t memory_bytes, const Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes both sorts of memory from the budget and the address's share, or neither.
  absl::Status TakeMemory(int64_t memory_bytes, int64_t scratch_bytes, const Payer& payer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // But for the scratch memory, which stays.
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
  // The verdict of the limits of the payer's tenant; OK where there are none.
  absl::Status CheckTenantsCalls(const Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckTenantsCost(const Payer& payer, int64_t cost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until so much will have been computed, at the speed of what is admitted or, where that is not
  // known, of late, which is less where there was little to do; zero: not known.
  absl::Duration TimeFor(double cost) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The delay of a refusal, a moment of the caller's own: until `cost` will have been computed, or
  // later, as `step` is the time in which room for one more such caller becomes free.
  absl::Duration RetryDelay(const Payer& payer, double cost, absl::Duration step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same of shares of the admitted work.
  absl::Duration RetryDelayOfShare(const Payer& payer, double share, double step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time in which a slot becomes free while all are taken.
  absl::Duration SlotInterval() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountSlot(int change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until `cost` of the payer's, whose tenant has limits, will have been computed beside others',
  // as much of it in a second as lately or, where that is not known, as its share is; zero: not
  // known, or nothing.
  absl::Duration TimeFor(const Payer& payer, int64_t cost) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part that the limit counts of so many multiply-adds that one request has in the queue.
  int64_t Counted(int64_t cost) const;
  // Changes what a request for these resources has in the queue, because that was `computed` or
  // else at the tenant's expense.
  void Requeue(AdmittedWork::Request& work, int64_t now, const ResourceRequest& resources,
               bool computed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const int64_t memory_budget_bytes_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  SteadyCondition idle_;
  std::list<Holder> holders_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  AdmissionState state_ ABSL_GUARDED_BY(mutex_);       // but for its queue_cost and queue_time
  AdmittedWork work_ ABSL_GUARDED_BY(mutex_);
  int64_t counted_cost_ ABSL_GUARDED_BY(mutex_) = 0;  // what the limit counts of the queue's
  ThroughputMeter throughput_ ABSL_GUARDED_BY(mutex_);
  AddressShares slot_shares_ ABSL_GUARDED_BY(mutex_);
  AddressShares memory_shares_ ABSL_GUARDED_BY(mutex_);  // bytes
  TenantQuotas quotas_ ABSL_GUARDED_BY(mutex_);
  RetryTurns retry_turns_ ABSL_GUARDED_BY(mutex_);
  ThroughputMeter slot_ends_ ABSL_GUARDED_BY(mutex_);  // of calls, while all slots are taken
  int64_t slot_ends_seen_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace upscaled::server
