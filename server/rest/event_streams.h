// Streams server-sent events to all listeners of a kind.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/admission/address_shares.h"
#include "server/base/timer.h"
#include "server/http/http_exchange.h"

namespace upscaled::server {

// The tenant of a request; "": the port asks for no keys.
std::string TenantOf(const HttpRequest& request);

// The events of one listener (FormatEvent in progress_events.h). Used by one thread at a time.
class EventFeed {
 public:
  virtual ~EventFeed() = default;
  // The text to be sent now; "": nothing is new.
  virtual std::string Next(absl::Time now) = 0;
  // Whether it was the last one.
  virtual bool ended() const = 0;
};

// Thread safe. A listener gets a few kilobytes in all. They always fit into the connection's output
// queue: a client that does not read holds up no other.
class EventStreams {
 public:
  static constexpr int kMaxListeners = 256;
  static constexpr int kMaxListenersPerTenant = kMaxListeners / 4;

  // Asks each feed once per `period`. Timer and clock must outlive it.
  EventStreams(Timer& timer, const Clock& clock, absl::Duration period,
               int max_listeners_per_address);
  // Cuts all streams.
  ~EventStreams();

  // Streams the events of `feed`, with `fields` next to its own in the answer's header.
  // RESOURCE_EXHAUSTED (kOverloaded), with `exchange` left alone: too many listen, in all, from
  // this address or of this tenant.
  absl::Status Add(std::unique_ptr<HttpExchange>& exchange, std::vector<HttpField> fields,
                   std::unique_ptr<EventFeed> feed) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all streams soon, behind the news that their feeds have, and those to come as well.
  void End();

 private:
  class Listener;

  void Advance() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(const Listener& listener) ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  const absl::Duration period_;
  std::atomic<bool> ending_ = false;
  absl::Mutex mutex_;
  int listener_count_ ABSL_GUARDED_BY(mutex_) = 0;
  AddressShares shares_ ABSL_GUARDED_BY(mutex_);
  AddressShares tenants_ ABSL_GUARDED_BY(mutex_);  // by name
  std::list<std::unique_ptr<Listener>> arrivals_ ABSL_GUARDED_BY(mutex_);
  std::list<std::unique_ptr<Listener>> listeners_;  // used by the task
  Timer::Task task_;                                // last: it uses what is above
};

}  // namespace upscaled::server
