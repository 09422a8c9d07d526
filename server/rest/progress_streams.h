// GET /v1/progress/{request_id}: the events of requests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "server/http/http_exchange.h"
#include "server/rest/event_streams.h"
#include "server/rest/progress_board.h"

namespace upscaled::server {

// Thread safe.
class ProgressStreams {
 public:
  static constexpr int kMaxListeners = EventStreams::kMaxListeners;

  // All three must outlive it.
  ProgressStreams(ProgressBoard& board, Timer& timer, const Clock& clock,
                  int max_listeners_per_address);

  // Streams the events of the request in the route's parameter. As EventStreams::Add.
  absl::Status Add(std::unique_ptr<HttpExchange>& exchange, std::vector<HttpField> fields);
  // As EventStreams::End.
  void End() { streams_.End(); }

 private:
  ProgressBoard& board_;
  const Clock& clock_;
  EventStreams streams_;  // last: uses the board
};

}  // namespace upscaled::server
