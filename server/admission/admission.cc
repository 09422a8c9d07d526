#include "server/admission/admission.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// The time until a slot becomes free, for all of them, while nothing is known.
constexpr absl::Duration kUnknownCallTime = absl::Milliseconds(500);

constexpr char kMaxRequestsPerAddressFlag[] = "max-requests-per-address";

ErrorMetadata LimitMetadata(absl::string_view flag, int64_t maximum) {
  return {{"limit", std::string(flag)}, {"maximum", absl::StrCat(maximum)}};
}

absl::Status NeverFits(absl::string_view what, int64_t value, int64_t maximum,
                       absl::string_view flag) {
  ErrorMetadata metadata = LimitMetadata(flag, maximum);
  metadata["value"] = absl::StrCat(value);
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                   absl::StrCat("the request needs ", value, " ", what, ", more than the server's ",
                                maximum, " (", flag, ")"),
                   metadata);
}

// The share of the calls, but enough for a large image.
int64_t MaxMemoryPerAddress(const Limits& limits, int64_t memory_budget_bytes) {
  const double share =
      static_cast<double>(MaxRequestsPerAddress(limits)) / limits.max_concurrent_requests;
  return static_cast<int64_t>(static_cast<double>(memory_budget_bytes) * std::max(share, 0.25));
}

absl::Status Displaced() {
  return MakeOverloaded(
      absl::StrCat("all slots are taken, and this call waited ",
                   absl::FormatDuration(kSlotPatience), " for a client that moved less than ",
                   kSlotBytes, " bytes; another call has its slot now (max-concurrent-requests)"),
      kUnknownRetryDelay, {{"limit", "max-concurrent-requests"}});
}

absl::Status DrainingError() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                   "the server is shutting down and takes no more requests");
}

}  // namespace

AdmissionController::CallSlot& AdmissionController::CallSlot::operator=(CallSlot&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    holder_ = other.holder_;
  }
  return *this;
}

void AdmissionController::CallSlot::Release() {
  AdmissionController* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  std::list<Holder> gone;  // destroyed without the lock
  absl::MutexLock lock(&owner->mutex_);
  owner->FreeSlot(*holder_);
  owner->state_.memory_bytes -= holder_->memory_bytes;
  owner->memory_shares_.Give(holder_->payer.address, holder_->memory_bytes);
  gone.splice(gone.end(), owner->holders_, holder_);
  owner->TellIfIdle();
}

void AdmissionController::CallSlot::BeginWait() {
  if (owner_ == nullptr) return;
  absl::MutexLock lock(&owner_->mutex_);
  holder_->patience.BeginWait(owner_->clock_.Now());
}

void AdmissionController::CallSlot::EndWait(int64_t bytes) {
  if (owner_ == nullptr) return;
  absl::MutexLock lock(&owner_->mutex_);
  const absl::Time now = owner_->clock_.Now();
  holder_->patience.EndWait(now);
  holder_->patience.Move(bytes, now);
}

void AdmissionController::CallSlot::KeepOnly(int64_t memory_bytes) {
  if (owner_ == nullptr) return;
  absl::MutexLock lock(&owner_->mutex_);
  owner_->FreeSlot(*holder_);
  const int64_t less = std::max<int64_t>(holder_->memory_bytes - memory_bytes, 0);
  holder_->memory_bytes -= less;
  owner_->CountMemory(-less, holder_->payer);
  owner_->TellIfIdle();
}

AdmissionController::Reservation::Reservation(Reservation&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      resources_(std::move(other.resources_)),
      work_(other.work_) {}

AdmissionController::Reservation& AdmissionController::Reservation::operator=(
    Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    resources_ = std::move(other.resources_);
    work_ = other.work_;
  }
  return *this;
}

void AdmissionController::Reservation::Release() {
  AdmissionController* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  absl::MutexLock lock(&owner->mutex_);
  owner->GiveMemory(resources_);
  owner->TellIfIdle();
  owner->Requeue(*work_, 0, resources_, /*computed=*/false);
  owner->work_.Remove(*work_);
}

absl::Status AdmissionController::Reservation::Change(const ResourceRequest& resources) {
  absl::MutexLock lock(&owner_->mutex_);
  owner_->GiveMemory(resources_);
  const int64_t cost = work_->cost();
  owner_->Requeue(*work_, 0, resources_, /*computed=*/false);
  absl::Status status = owner_->Take(resources);
  if (status.ok()) {
    resources_ = resources;
    owner_->work_.SetSpeed(*work_, resources.speed);
  } else {
    owner_->CountMemory(resources_.memory_bytes, resources_.payer);
  }
  owner_->Requeue(*work_, status.ok() ? resources.cost : cost, resources_, /*computed=*/false);
  return status;
}

bool AdmissionController::Reservation::TryHold(int64_t memory_bytes) {
  absl::MutexLock lock(&owner_->mutex_);
  const int64_t more = memory_bytes - resources_.memory_bytes;
  if (more > owner_->FreeMemory(owner_->state_.scratch_bytes) ||
      !owner_->memory_shares_.Fits(resources_.payer.address, more)) {
    return false;
  }
  owner_->GiveMemory(resources_);
  resources_.memory_bytes = memory_bytes;
  owner_->CountMemory(memory_bytes, resources_.payer);
  return true;
}

absl::StatusOr<AdmissionController::Reservation> AdmissionController::Reservation::ReserveMore(
    const ResourceRequest& resources) const {
  absl::MutexLock lock(&owner_->mutex_);
  return owner_->ReserveFor(&*work_, resources);
}

void AdmissionController::Reservation::ReportProgress(int64_t cost) {
  if (owner_ == nullptr) return;
  absl::MutexLock lock(&owner_->mutex_);
  const int64_t queued = std::max<int64_t>(resources_.cost - cost, 0);
  if (queued >= work_->cost()) return;  // an earlier report that comes late
  owner_->Requeue(*work_, queued, resources_, /*computed=*/true);
}

Payer AdmissionController::Reservation::payer() const {
  absl::MutexLock lock(&owner_->mutex_);
  return resources_.payer;
}

void AdmissionController::Reservation::ChargeMemoryTo(const std::string& address) {
  if (owner_ == nullptr) return;
  absl::MutexLock lock(&owner_->mutex_);
  std::string& own = resources_.payer.address;
  AddressShares& shares = owner_->memory_shares_;
  if (own == address || !shares.Fits(address, resources_.memory_bytes)) return;
  shares.Give(own, resources_.memory_bytes);
  shares.Take(address, resources_.memory_bytes);
  own = address;
}

int64_t AdmissionController::Reservation::CostAhead(bool lasts) const {
  absl::MutexLock lock(&owner_->mutex_);
  const double computed = owner_->work_.ComputedUntilEnd(*work_, lasts);
  return static_cast<int64_t>(computed - static_cast<double>(work_->cost()));
}

AdmissionController::AdmissionController(const Limits& limits, int64_t memory_budget_bytes,
                                         const Clock& clock)
    : limits_(limits),
      memory_budget_bytes_(memory_budget_bytes),
      clock_(clock),
      slot_shares_(MaxRequestsPerAddress(limits)),
      memory_shares_(MaxMemoryPerAddress(limits, memory_budget_bytes)) {}

absl::StatusOr<AdmissionController::CallSlot> AdmissionController::AdmitCall(int64_t memory_bytes,
                                                                             Payer payer,
                                                                             GiveWay give_way) {
  GiveWay displaced;
  absl::StatusOr<CallSlot> slot = [&]() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return TakeSlot(memory_bytes, std::move(payer), std::move(give_way), displaced);
  }();
  if (displaced != nullptr) displaced(Displaced());
  return slot;
}

absl::StatusOr<AdmissionController::CallSlot> AdmissionController::TakeSlot(int64_t memory_bytes,
                                                                            Payer payer,
                                                                            GiveWay give_way,
                                                                            GiveWay& displaced) {
  if (state_.draining) return DrainingError();
  const bool is_free = HasFreeSlot(payer);
  const auto stalled = is_free ? holders_.cend() : FindStalled(payer);
  if (!is_free && stalled == holders_.cend()) return RefuseForSlots(payer);
  RETURN_IF_ERROR(CheckTenantsCalls(payer));
  RETURN_IF_ERROR(TakeMemory(memory_bytes, 0, payer));
  if (!is_free) {
    Holder& holder = *holders_.erase(stalled, stalled);  // the same place, to be changed
    FreeSlot(holder);
    displaced = std::exchange(holder.give_way, nullptr);
  }
  const absl::Time now = clock_.Now();
  if (payer.limits != nullptr) quotas_.BeginCall(*payer.limits, now);
  CountSlot(1);
  ++state_.calls_admitted;
  slot_shares_.Take(payer.address, 1);
  return CallSlot(this, holders_.insert(holders_.end(), {.memory_bytes = memory_bytes,
                                                         .payer = std::move(payer),
                                                         .begun = now,
                                                         .give_way = std::move(give_way)}));
}

absl::Status AdmissionController::CheckCall(const Payer& payer) {
  absl::MutexLock lock(&mutex_);
  if (state_.draining) return DrainingError();
  if (!HasFreeSlot(payer) && FindStalled(payer) == holders_.cend()) return RefuseForSlots(payer);
  return CheckTenantsCalls(payer);
}

bool AdmissionController::HasFreeSlot(const Payer& payer) const {
  return state_.requests < limits_.max_concurrent_requests && slot_shares_.Fits(payer.address, 1);
}

absl::Status AdmissionController::RefuseForSlots(const Payer& payer) {
  if (state_.requests >= limits_.max_concurrent_requests) {
    return MakeOverloaded(
        absl::StrCat("the server is busy with ", state_.requests,
                     " requests, the most it takes at a time (max-concurrent-requests)"),
        RetryDelay(payer, work_.ComputedUntilAnEnd(), SlotInterval()),
        LimitMetadata("max-concurrent-requests", limits_.max_concurrent_requests));
  }
  return MakeOverloaded(
      absl::StrCat("the server is busy with ", slot_shares_.taken(payer.address),
                   " requests of this address, the most that one may have at a time (",
                   kMaxRequestsPerAddressFlag, ")"),
      RetryDelay(payer, work_.ComputedUntilAnEnd(payer), SlotInterval()),
      LimitMetadata(kMaxRequestsPerAddressFlag, slot_shares_.max_per_address()));
}

std::list<AdmissionController::Holder>::const_iterator AdmissionController::FindStalled(
    const Payer& payer) const {
  const bool own_only = !slot_shares_.Fits(payer.address, 1);
  const absl::Time now = clock_.Now();
  return std::ranges::find_if(holders_, [&](const Holder& holder) {
    const StallMeter& patience = holder.patience;
    return holder.has_slot && holder.give_way != nullptr && patience.waiting() &&
           patience.Patience(now) == absl::ZeroDuration() &&
           (!own_only || holder.payer.address == payer.address);
  });
}

void AdmissionController::FreeSlot(Holder& holder) {
  if (!std::exchange(holder.has_slot, false)) return;
  CountSlot(-1);
  slot_shares_.Give(holder.payer.address, 1);
  if (holder.payer.limits != nullptr) {
    quotas_.EndCall(*holder.payer.limits, holder.begun, clock_.Now());
  }
}

absl::StatusOr<AdmissionController::Reservation> AdmissionController::Reserve(
    const ResourceRequest& resources) {
  absl::MutexLock lock(&mutex_);
  return ReserveFor(nullptr, resources);
}

absl::StatusOr<AdmissionController::Reservation> AdmissionController::ReserveFor(
    const AdmittedWork::Request* whole, const ResourceRequest& resources) {
  RETURN_IF_ERROR(Take(resources));
  AdmittedWork::Request work =
      whole == nullptr ? work_.Add(resources.payer) : work_.AddPart(*whole);
  work_.SetSpeed(work, resources.speed);
  Requeue(work, resources.cost, resources, /*computed=*/false);
  return Reservation(this, resources, work);
}

absl::Status AdmissionController::Receive(const Payer& payer, int64_t bytes) {
  if (payer.limits == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return quotas_.Receive(*payer.limits, bytes, clock_.Now());
}

absl::Status AdmissionController::CheckTenantsCalls(const Payer& payer) {
  if (payer.limits == nullptr) return absl::OkStatus();
  return quotas_.CheckCall(*payer.limits, clock_.Now(),
                           TimeFor(payer, work_.CostUntilAnEnd(payer)));
}

absl::Status AdmissionController::CheckTenantsCost(const Payer& payer, int64_t cost) {
  if (payer.limits == nullptr || cost == 0) return absl::OkStatus();
  const auto time_for = [&](int64_t queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Duration time = TimeFor(payer, queued);
    return time == absl::ZeroDuration() ? kUnknownRetryDelay : time;
  };
  return quotas_.CheckCost(*payer.limits, cost, {.cost = work_.CostOf(payer), .time_for = time_for},
                           clock_.Now());
}

absl::Status AdmissionController::Take(const ResourceRequest& resources) {
  RETURN_IF_ERROR(CheckTenantsCost(resources.payer, resources.cost));
  const int64_t counted = Counted(resources.cost);
  const int64_t missing = counted_cost_ + counted - limits_.max_queue_cost();
  if (missing > 0) {
    return MakeOverloaded(
        absl::StrCat("the request takes ", QueuePixels(counted), " of the queue's ",
                     limits_.max_queue_pixels, " pixels' work, and ",
                     (limits_.max_queue_cost() - counted_cost_) / kQueuePixelCost,
                     " are free (max-queue-pixels)"),
        RetryDelayOfShare(resources.payer,
                          static_cast<double>(missing) / static_cast<double>(counted_cost_),
                          static_cast<double>(counted) / static_cast<double>(counted_cost_)),
        LimitMetadata("max-queue-pixels", limits_.max_queue_pixels));
  }
  return TakeMemory(resources.memory_bytes, resources.scratch_bytes, resources.payer);
}

void AdmissionController::CountMemory(int64_t memory_bytes, const Payer& payer) {
  state_.memory_bytes += memory_bytes;
  memory_shares_.Take(payer.address, memory_bytes);
}

void AdmissionController::GiveMemory(const ResourceRequest& resources) {
  state_.memory_bytes -= resources.memory_bytes;
  memory_shares_.Give(resources.payer.address, resources.memory_bytes);
}

absl::Status AdmissionController::CheckShareOfMemory(int64_t memory_bytes, const Payer& payer) {
  const std::string& address = payer.address;
  if (memory_shares_.Fits(address, memory_bytes)) return absl::OkStatus();
  const int64_t share = memory_shares_.max_per_address();
  if (memory_bytes > share) {
    return NeverFits("bytes of memory", memory_bytes, share, kMaxRequestsPerAddressFlag);
  }
  return MakeOverloaded(
      absl::StrCat("the request needs ", memory_bytes, " bytes of memory, and this address has ",
                   memory_shares_.taken(address), " of the ", share, " that one may have (",
                   kMaxRequestsPerAddressFlag, ")"),
      RetryDelayOfShare(payer, static_cast<double>(memory_bytes) / state_.memory_bytes,
                        static_cast<double>(memory_bytes) / state_.memory_bytes),
      LimitMetadata(kMaxRequestsPerAddressFlag, share));
}

absl::Status AdmissionController::TakeMemory(int64_t memory_bytes, int64_t scratch_bytes,
                                             const Payer& payer) {
  scratch_bytes = std::max(scratch_bytes, state_.scratch_bytes);
  if (memory_bytes + scratch_bytes > memory_budget_bytes_) {
    return NeverFits("bytes of memory, the device's scratch included", memory_bytes + scratch_bytes,
                     memory_budget_bytes_, "memory-budget");
  }
  RETURN_IF_ERROR(CheckShareOfMemory(memory_bytes, payer));
  const int64_t free_bytes = FreeMemory(scratch_bytes);
  if (memory_bytes > free_bytes) {
    return MakeOverloaded(
        absl::StrCat("the request needs ", memory_bytes, " bytes of memory, and ",
                     std::max<int64_t>(free_bytes, 0), " of ", memory_budget_bytes_,
                     " are free (memory-budget)"),
        RetryDelayOfShare(payer,
                          static_cast<double>(memory_bytes - free_bytes) / state_.memory_bytes,
                          static_cast<double>(memory_bytes) / state_.memory_bytes),
        LimitMetadata("memory-budget", memory_budget_bytes_));
  }
  CountMemory(memory_bytes, payer);
  state_.scratch_bytes = scratch_bytes;
  return absl::OkStatus();
}

bool AdmissionController::HasPlenty() const {
  absl::MutexLock lock(&mutex_);
  return 2 * state_.requests < limits_.max_concurrent_requests &&
         2 * state_.memory_bytes < memory_budget_bytes_;
}

absl::Status AdmissionController::CheckOpen() const {
  absl::MutexLock lock(&mutex_);
  return state_.draining ? DrainingError() : absl::OkStatus();
}

void AdmissionController::StartDraining() {
  absl::MutexLock lock(&mutex_);
  state_.draining = true;
}

bool AdmissionController::AwaitIdle(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return idle_.Await(mutex_, timeout,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Idle(); });
}

AdmissionState AdmissionController::state() const {
  absl::MutexLock lock(&mutex_);
  AdmissionState state = state_;
  state.queue_cost = work_.cost();
  state.queue_time = throughput_.TimeFor(state.queue_cost);
  return state;
}

absl::Duration AdmissionController::TimeFor(double cost) const {
  const double speed = work_.Speed();
  return speed > 0 ? absl::Seconds(cost / speed) : throughput_.TimeFor(static_cast<int64_t>(cost));
}

absl::Duration AdmissionController::RetryDelay(const Payer& payer, double cost,
                                               absl::Duration step) {
  const absl::Duration time = TimeFor(cost);
  const absl::Duration first = time == absl::ZeroDuration()
                                   ? kUnknownRetryDelay
                                   : std::clamp(time, kMinRetryDelay, RetryTurns::kMaxDelay);
  return retry_turns_.Next(payer.address, clock_.Now(), first, step);
}

absl::Duration AdmissionController::RetryDelayOfShare(const Payer& payer, double share,
                                                      double step) {
  const auto cost = static_cast<double>(work_.cost());
  return RetryDelay(payer, share * cost, TimeFor(step * cost));
}

absl::Duration AdmissionController::SlotInterval() const {
  // The first calls to end may be the shortest.
  if (slot_ends_seen_ >= limits_.max_concurrent_requests) return slot_ends_.TimeFor(1);
  const absl::Duration all = TimeFor(static_cast<double>(work_.cost()));
  return all > absl::ZeroDuration() ? all / std::max(state_.requests, 1)
                                    : kUnknownCallTime / limits_.max_concurrent_requests;
}

void AdmissionController::CountSlot(int change) {
  const bool full = state_.requests >= limits_.max_concurrent_requests;
  const int ended = full && change < 0 ? -change : 0;
  slot_ends_.Record(clock_.Now(), full, ended);
  slot_ends_seen_ += ended;
  state_.requests += change;
}

absl::Duration AdmissionController::TimeFor(const Payer& payer, int64_t cost) const {
  if (cost == 0) return absl::ZeroDuration();
  const absl::Duration time = quotas_.TimeFor(*payer.limits, cost);
  if (time > absl::ZeroDuration()) return time;
  return TimeFor(work_.ComputedUntil(payer, static_cast<double>(cost)));
}

int64_t AdmissionController::Counted(int64_t cost) const {
  return std::min(cost, limits_.max_queue_cost() / 4);
}

void AdmissionController::Requeue(AdmittedWork::Request& work, int64_t now,
                                  const ResourceRequest& resources, bool computed) {
  const int64_t before = work.cost();
  if (now == before) return;
  const absl::Time time = clock_.Now();
  const int64_t done = computed ? before - now : 0;
  const auto& limits = resources.payer.limits;
  throughput_.Record(time, work_.cost() > 0, done);
  if (limits != nullptr) {
    quotas_.RecordComputed(*limits, work_.CostOf(resources.payer) > 0, done, time);
  }
  work_.Set(work, now);
  counted_cost_ += Counted(now) - Counted(before);
  if (resources.device_class >= 0) {
    std::vector<int64_t>& costs = state_.class_queue_costs;
    costs.resize(std::max<size_t>(costs.size(), resources.device_class + 1));
    costs[resources.device_class] += now - before;
  }
  if (!computed && limits != nullptr) quotas_.Spend(*limits, now - before, time);
}

}  // namespace upscaled::server
