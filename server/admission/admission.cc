#include "server/admission/admission.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMinRetryDelay = absl::Seconds(1);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(30);

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

}  // namespace

AdmissionController::CallSlot& AdmissionController::CallSlot::operator=(CallSlot&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    memory_bytes_ = other.memory_bytes_;
  }
  return *this;
}

void AdmissionController::CallSlot::Release() {
  AdmissionController* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  absl::MutexLock lock(&owner->mutex_);
  --owner->state_.requests;
  owner->state_.memory_bytes -= memory_bytes_;
}

AdmissionController::Reservation::Reservation(Reservation&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      resources_(other.resources_),
      queued_pixels_(other.queued_pixels_) {}

AdmissionController::Reservation& AdmissionController::Reservation::operator=(
    Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    resources_ = other.resources_;
    queued_pixels_ = other.queued_pixels_;
  }
  return *this;
}

void AdmissionController::Reservation::Release() {
  AdmissionController* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  absl::MutexLock lock(&owner->mutex_);
  owner->state_.memory_bytes -= resources_.memory_bytes;
  owner->FreePixels(queued_pixels_, /*computed=*/false);
}

void AdmissionController::Reservation::ReportProgress(int64_t done, int64_t total) {
  if (owner_ == nullptr) return;
  absl::MutexLock lock(&owner_->mutex_);
  const double left = total <= 0 ? 0 : static_cast<double>(total - done) / total;
  const auto queued = static_cast<int64_t>(left * resources_.source_pixels);
  if (queued >= queued_pixels_) return;  // an earlier report that comes late
  owner_->FreePixels(queued_pixels_ - queued, /*computed=*/true);
  queued_pixels_ = queued;
}

AdmissionController::AdmissionController(const Limits& limits, int64_t memory_budget_bytes,
                                         const Clock& clock)
    : limits_(limits), memory_budget_bytes_(memory_budget_bytes), clock_(clock) {}

absl::StatusOr<AdmissionController::CallSlot> AdmissionController::AdmitCall(int64_t memory_bytes) {
  absl::MutexLock lock(&mutex_);
  if (state_.draining) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                     "the server is shutting down and takes no more requests");
  }
  if (state_.requests >= limits_.max_concurrent_requests) {
    return MakeOverloaded(
        absl::StrCat("the server is busy with ", state_.requests,
                     " requests, the most it takes at a time (max-concurrent-requests)"),
        RetryDelay(1.0 / std::max(state_.requests, 1)),
        LimitMetadata("max-concurrent-requests", limits_.max_concurrent_requests));
  }
  RETURN_IF_ERROR(TakeMemory(memory_bytes, 0));
  ++state_.requests;
  return CallSlot(this, memory_bytes);
}

absl::StatusOr<AdmissionController::Reservation> AdmissionController::Reserve(
    const ResourceRequest& resources) {
  if (resources.source_pixels > limits_.max_queue_pixels)
    return NeverFits("pixels of queue", resources.source_pixels, limits_.max_queue_pixels,
                     "max-queue-pixels");

  absl::MutexLock lock(&mutex_);
  const int64_t missing_pixels =
      state_.queue_pixels + resources.source_pixels - limits_.max_queue_pixels;
  if (missing_pixels > 0) {
    return MakeOverloaded(absl::StrCat("the source has ", resources.source_pixels,
                                       " pixels, and the queue has room for ",
                                       limits_.max_queue_pixels - state_.queue_pixels, " of ",
                                       limits_.max_queue_pixels, " (max-queue-pixels)"),
                          RetryDelay(static_cast<double>(missing_pixels) / state_.queue_pixels),
                          LimitMetadata("max-queue-pixels", limits_.max_queue_pixels));
  }
  RETURN_IF_ERROR(TakeMemory(resources.memory_bytes, resources.scratch_bytes));
  throughput_.Record(clock_.Now(), state_.queue_pixels > 0, 0);
  state_.queue_pixels += resources.source_pixels;
  return Reservation(this, resources);
}

absl::Status AdmissionController::TakeMemory(int64_t memory_bytes, int64_t scratch_bytes) {
  scratch_bytes = std::max(scratch_bytes, state_.scratch_bytes);
  if (memory_bytes + scratch_bytes > memory_budget_bytes_) {
    return NeverFits("bytes of memory, the device's scratch included", memory_bytes + scratch_bytes,
                     memory_budget_bytes_, "memory-budget");
  }
  const int64_t free_bytes = memory_budget_bytes_ - scratch_bytes - state_.memory_bytes;
  if (memory_bytes > free_bytes) {
    return MakeOverloaded(
        absl::StrCat("the request needs ", memory_bytes, " bytes of memory, and ",
                     std::max<int64_t>(free_bytes, 0), " of ", memory_budget_bytes_,
                     " are free (memory-budget)"),
        RetryDelay(static_cast<double>(memory_bytes - free_bytes) / state_.memory_bytes),
        LimitMetadata("memory-budget", memory_budget_bytes_));
  }
  state_.memory_bytes += memory_bytes;
  state_.scratch_bytes = scratch_bytes;
  return absl::OkStatus();
}

void AdmissionController::StartDraining() {
  absl::MutexLock lock(&mutex_);
  state_.draining = true;
}

bool AdmissionController::AwaitIdle(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return state_.requests == 0 && state_.memory_bytes == 0;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&idle), timeout);
}

AdmissionState AdmissionController::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

absl::Duration AdmissionController::RetryDelay(double share) const {
  const auto pixels = static_cast<int64_t>(share * state_.queue_pixels);
  return std::clamp(throughput_.TimeFor(pixels), kMinRetryDelay, kMaxRetryDelay);
}

void AdmissionController::FreePixels(int64_t pixels, bool computed) {
  throughput_.Record(clock_.Now(), state_.queue_pixels > 0, computed ? pixels : 0);
  state_.queue_pixels -= pixels;
}

}  // namespace upscaled::server
