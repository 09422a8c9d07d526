// GET /v1/progress/{request_id}: all who listen to requests, on one thread.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/steady_wait.h"
#include "server/admission/address_shares.h"
#include "server/http/http_exchange.h"
#include "server/rest/progress_board.h"

namespace upscaled::server {

// Thread safe. A listener gets a few kilobytes in all, which always fit into the connection's
// output queue, so that nobody who does not read holds up the others.
class ProgressStreams {
 public:
  static constexpr int kMaxListeners = 256;

  // Both must outlive it.
  ProgressStreams(ProgressBoard& board, const Clock& clock, int max_listeners_per_address);
  // Cuts the streams that there are.
  ~ProgressStreams();

  // Streams the events of the request that the route's parameter names, `fields` beside its own in
  // the answer's header. RESOURCE_EXHAUSTED (kOverloaded), with `exchange` left alone: too many
  // listen, in all or from this address.
  absl::Status Add(std::unique_ptr<HttpExchange>& exchange, std::vector<HttpField> fields)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Listener;

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(const Listener& listener) ABSL_LOCKS_EXCLUDED(mutex_);

  ProgressBoard& board_;
  const Clock& clock_;
  absl::Mutex mutex_;
  SteadyCondition news_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int listeners_ ABSL_GUARDED_BY(mutex_) = 0;
  AddressShares shares_ ABSL_GUARDED_BY(mutex_);
  std::list<std::unique_ptr<Listener>> arrivals_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses what is above
};

}  // namespace upscaled::server
