// The running computations, by their keys.
#pragma once

#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/cancellation.h"
#include "server/results/digest.h"
#include "server/results/flight.h"

namespace upscaled::server {

// Thread safe.
class InFlight {
 public:
  struct Place {
    std::shared_ptr<Flight> flight;
    std::unique_ptr<Flight::Waiter> waiter;  // never null
    bool started = false;                    // the flight is new: the caller has it computed
  };

  // A place for `payer` in the flight of this key, or in a new one, of `source`, if a client with
  // the first `position` bytes can join no flight. `cancellation` must outlive the place.
  Place JoinOrStart(const Digest& key, Cancellation& cancellation, const Flight::Source& source,
                    const Payer& payer = {}, int64_t position = 0) ABSL_LOCKS_EXCLUDED(mutex_);

  // Before its end is told; the flight may be another one's or an unknown one.
  void Remove(const Digest& key, const Flight& flight) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;  // held before a flight's own
  std::map<Digest, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
