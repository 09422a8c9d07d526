#include "server/calls/watchdog.h"

#include <vector>

#include "engine/base/clock.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(100);

}  // namespace

Watchdog::Watchdog() : thread_([this] { Loop(); }) {}

Watchdog::~Watchdog() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.NotifyAll();
  }
  thread_.join();
}

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

void Watchdog::Loop() {
  while (true) {
    std::vector<std::function<void()>> late;
    {
      absl::MutexLock lock(&mutex_);
      const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; };
      if (stopped_.Await(mutex_, kPeriod, stopping)) return;
      const absl::Time now = Clock::Real().Now();
      while (!watched_.empty() && watched_.begin()->first.first <= now) {
        late.push_back(std::move(watched_.begin()->second));
        watched_.erase(watched_.begin());
      }
    }
    for (const auto& tell : late) tell();
  }
}

}  // namespace upscaled::server
