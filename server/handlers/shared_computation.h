// Computes an image on a thread of its own, for all waiting callers.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/image_request.h"
#include "server/results/flight.h"

namespace upscaled::server {

struct SharedComputation {
  const HandlerEnvironment& environment;
  std::shared_ptr<Flight> flight;
  ImageRequest request;   // with the key of the flight
  size_t kept_bytes = 0;  // of the result that the flight keeps at most
  // The first call.
  absl::Time start;
  Payer payer;
  absl::Time deadline = absl::InfiniteFuture();
  // Filled in before the end is told, and told with it.
  std::shared_ptr<RequestRecord> record;
};

// Starts it on the environment's `sharing`; the flight tells its end, also if memory or threads are
// short. The memory of source and kept bytes stays reserved while a caller waits. The result goes
// into the store as well.
void StartComputation(SharedComputation computation);

}  // namespace upscaled::server
