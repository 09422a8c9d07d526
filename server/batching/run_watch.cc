#include "server/batching/run_watch.h"

#include <algorithm>
#include <utility>

namespace upscaled::server {

RunWatch::Run RunWatch::Begin(std::shared_ptr<Device> device, int64_t cost, double speed) {
  const double seconds = speed > 0 ? kFactor * static_cast<double>(cost) / speed
                                   : static_cast<double>(cost) / kUnknownSpeed;
  const absl::Duration limit = kSlack + std::min(absl::Seconds(seconds), kLongest);
  absl::MutexLock lock(&mutex_);
  return Run(*this, entries_.insert(entries_.end(), {std::move(device), limit, {}}));
}

std::vector<RunWatch::Overdue> RunWatch::Advance(absl::Duration passed) {
  std::vector<Overdue> overdue;
  absl::MutexLock lock(&mutex_);
  for (Entry& entry : entries_) {
    entry.taken += passed;
    if (entry.taken < entry.limit) continue;
    overdue.push_back({entry.device, entry.taken, entry.overdue});
    entry.limit = entry.overdue ? absl::InfiniteDuration() : entry.taken + kSlack;
    entry.overdue = true;
  }
  return overdue;
}

void RunWatch::End(Entries::iterator entry) {
  absl::MutexLock lock(&mutex_);
  entries_.erase(entry);
}

}  // namespace upscaled::server
