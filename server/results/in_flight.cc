#include "server/results/in_flight.h"

#include <utility>

namespace upscaled::server {

InFlight::Place InFlight::JoinOrStart(const Digest& key, Cancellation& cancellation,
                                      const Flight::Source& source, const Payer& payer,
                                      int64_t position) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Flight>& known = flights_[key];
  if (known != nullptr) {
    if (auto waiter = known->Join(cancellation, payer, position)) {
      return {known, std::move(waiter), false};
    }
  }
  known = std::make_shared<Flight>(source);
  return {known, known->Join(cancellation, payer, position), true};
}

void InFlight::Remove(const Digest& key, const Flight& flight) {
  absl::MutexLock lock(&mutex_);
  const auto known = flights_.find(key);
  if (known != flights_.end() && known->second.get() == &flight) flights_.erase(known);
}

}  // namespace upscaled::server
