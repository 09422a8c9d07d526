#include "server/batching/run_watch.h"

#include <utility>

namespace upscaled::server {

RunWatch::Run RunWatch::Begin(std::shared_ptr<const Device> device, int64_t cost, double speed) {
  const double seconds = speed > 0 ? kFactor * static_cast<double>(cost) / speed
                                   : static_cast<double>(cost) / kUnknownSpeed;
  absl::MutexLock lock(&mutex_);
  return Run(*this, entries_.insert(entries_.end(),
                                    {std::move(device), kSlack + absl::Seconds(seconds), {}}));
}

std::vector<RunWatch::Overdue> RunWatch::Advance(absl::Duration passed) {
  std::vector<Overdue> overdue;
  absl::MutexLock lock(&mutex_);
  for (Entry& entry : entries_) {
    entry.taken += passed;
    if (entry.reported || entry.taken < entry.limit) continue;
    entry.reported = true;
    overdue.push_back({entry.device, entry.taken});
  }
  return overdue;
}

void RunWatch::End(Entries::iterator entry) {
  absl::MutexLock lock(&mutex_);
  entries_.erase(entry);
}

}  // namespace upscaled::server
