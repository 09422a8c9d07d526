// The computation of a flight: an image on a thread of its own, for all who wait for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/admission/admission.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/request_options.h"
#include "server/models/model_chain.h"
#include "server/results/digest.h"
#include "server/results/flight.h"

namespace upscaled::server {

struct FlightComputation {
  const HandlerEnvironment& environment;
  std::shared_ptr<Flight> flight;
  Digest key;  // of the flight
  RequestOptions options;
  ModelChain models;
  Digest source_digest;
  std::string source_header;  // StoredResult::source_header
  std::string media_type;     // of the result
  size_t kept_bytes = 0;      // of the result that the flight keeps at most
  absl::Time start;
  Payer payer;                                   // of the caller who began it
  absl::Time deadline = absl::InfiniteFuture();  // likewise
  // Filled in before the end is told, and told with it.
  std::shared_ptr<RequestRecord> record;
};

// Starts it on the environment's `sharing`; the flight tells its end, also if memory or threads are
// short. The memory of source and kept bytes stays reserved while a caller waits. The result goes
// into the store as well.
void StartComputation(FlightComputation computation);

}  // namespace upscaled::server
