#include "server/calls/watchdog.h"

#include <vector>

#include "engine/base/clock.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(100);

}  // namespace

Watchdog::Watchdog(Timer& timer)
    : task_(
          timer, Timer::Length::kQuick, [this] { Look(); }, kPeriod) {}

Watchdog::Id Watchdog::Watch(absl::Duration timeout, std::function<void()> late) {
  const absl::Time end = Clock::Real().Now() + timeout;
  absl::MutexLock lock(&mutex_);
  const Id id(end, ++last_id_);
  watched_.emplace_hint(watched_.end(), id, std::move(late));  // timeouts are mostly alike
  return id;
}

void Watchdog::Drop(const Id& id) {
  decltype(watched_)::node_type dropped;  // destroyed without the lock: it may own a call
  absl::MutexLock lock(&mutex_);
  dropped = watched_.extract(id);
}

void Watchdog::Look() {
  std::vector<std::function<void()>> late;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = Clock::Real().Now();
    while (!watched_.empty() && watched_.begin()->first.first <= now) {
      late.push_back(std::move(watched_.begin()->second));
      watched_.erase(watched_.begin());
    }
  }
  for (const auto& tell : late) tell();
}

}  // namespace upscaled::server
