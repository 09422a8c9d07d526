// The parts of the server for a transport's calls.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/admission/admission.h"
#include "server/base/peer_address.h"
#include "server/base/request_record.h"
#include "server/base/thread_pool.h"
#include "server/base/timer.h"
#include "server/calls/call_registry.h"
#include "server/calls/watchdog.h"
#include "server/identity/authenticator.h"

namespace upscaled::server {

// Everything outlives the calls.
struct CallEnvironment {
  AdmissionController& admission;
  ThreadPool& workers;
  Timer& timer;
  Watchdog& watchdog;
  CallRegistry& registry;
  const Clock& clock;
  // Called once per finished call, just before the client gets its status.
  std::function<void(const RequestRecord&)> on_finished;
  // For a call's request to come: a unary call's message, the first one of a stream.
  absl::Duration start_timeout;
  // For the client to send or take its next bytes.
  absl::Duration stall_timeout;
  int64_t min_progress_bytes = 16 * 1024;  // that a client moves in each
  // The client behind the transport's name. Thread safe.
  std::function<PeerAddress(const std::string& transport_name)> peer;
  // TrustedProxies::ClientOf; null: no proxy is trusted. Thread safe.
  std::function<std::string(const PeerAddress& peer, std::string_view x_forwarded_for,
                            std::string_view forwarded)>
      client_of = nullptr;
  const Authenticator* authenticator = nullptr;  // null: anybody may call
  std::optional<double> trace_ratio;             // as ContinueTrace's
};

}  // namespace upscaled::server
