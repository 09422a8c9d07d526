#include "server/rpc/pending_calls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);

absl::Status TooMany(absl::string_view whose, size_t calls) {
  return MakeOverloaded(
      absl::StrCat("the server waits for the messages of more than ", calls, " calls", whose,
                   ", the most that it waits for at a time, and this is the oldest"),
      kRetryDelay, {{"limit", "unread-calls"}, {"maximum", absl::StrCat(calls)}});
}

absl::Status TooManySettled(absl::string_view whose, size_t calls) {
  return MakeOverloaded(
      absl::StrCat("the server receives slow uploads of ", calls, " calls", whose,
                   ", the most that it receives at a time while its slots or memory are short"),
      kRetryDelay, {{"limit", "slow-uploads"}, {"maximum", absl::StrCat(calls)}});
}

}  // namespace

void PendingCalls::Place::Release() {
  PendingCalls* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  std::list<Waiting> gone;  // destroyed without the lock
  absl::MutexLock lock(&owner->mutex_);
  owner->shares_.Give(waiting_->address, 1);
  if (waiting_->settled) {
    --owner->settled_;
    owner->settled_shares_.Give(waiting_->address, 1);
  }
  gone.splice(gone.end(), owner->waiting_, waiting_);
}

absl::Status PendingCalls::Place::Settle() {
  if (owner_ == nullptr) return absl::OkStatus();
  const size_t max_settled = (owner_->max_calls_ + 1) / 2;
  absl::MutexLock lock(&owner_->mutex_);
  AddressShares& shares = owner_->settled_shares_;
  if (!shares.Fits(waiting_->address, 1)) {
    return TooManySettled(" of this address", static_cast<size_t>(shares.max_per_address()));
  }
  if (owner_->settled_ >= max_settled) return TooManySettled("", max_settled);
  waiting_->settled = true;
  waiting_->refuse = nullptr;
  ++owner_->settled_;
  shares.Take(waiting_->address, 1);
  return absl::OkStatus();
}

PendingCalls::Place PendingCalls::Enter(const std::string& address,
                                        std::function<void(const absl::Status&)> refuse) {
  std::function<void(const absl::Status&)> refuse_oldest;
  absl::Status status;
  Place place;
  {
    absl::MutexLock lock(&mutex_);
    const bool share_is_full = !shares_.Fits(address, 1);
    if (share_is_full || waiting_.size() >= max_calls_) {
      status = share_is_full
                   ? TooMany(" of this address", static_cast<size_t>(shares_.max_per_address()))
                   : TooMany("", max_calls_);
      const auto oldest = std::ranges::find_if(waiting_, [&](const Waiting& call) {
        return call.refuse != nullptr && (!share_is_full || call.address == address);
      });
      if (oldest != waiting_.end()) refuse_oldest = std::exchange(oldest->refuse, nullptr);
    }
    shares_.Take(address, 1);
    place = Place(this, waiting_.insert(waiting_.end(), {address, std::move(refuse)}));
  }
  if (refuse_oldest != nullptr) refuse_oldest(status);
  return place;
}

}  // namespace upscaled::server
