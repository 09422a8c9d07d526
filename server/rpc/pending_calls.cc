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

}  // namespace

void PendingCalls::Place::Release() {
  PendingCalls* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  std::list<Waiting> gone;  // destroyed without the lock
  absl::MutexLock lock(&owner->mutex_);
  owner->shares_.Give(waiting_->address, 1);
  gone.splice(gone.end(), owner->waiting_, waiting_);
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
