// The addresses of hosts by their names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"

namespace upscaled::server {

// IPv4 and IPv6 as texts, in the order of the tries.
using HostAddresses = std::vector<std::string>;

// As the system has them, however long it takes. NOT_FOUND gives the reason.
absl::StatusOr<HostAddresses> LookUpHost(const std::string& host);

// Resolves host names; callers can stop waiting. The system's resolver cannot be interrupted: each
// lookup runs on its own thread, and the thread may outlive this object. Callers asking for the
// same name share one lookup. There is at most one thread per name. Thread safe.
class HostLookups {
 public:
  using Function = std::function<absl::StatusOr<HostAddresses>(const std::string& host)>;

  explicit HostLookups(Function look_up = LookUpHost);

  // Waits for the result of the function. DEADLINE_EXCEEDED: `timeout` has passed; the status of
  // `cancellation`, if it was cancelled. RESOURCE_EXHAUSTED: there was no memory.
  absl::StatusOr<HostAddresses> Find(const std::string& host, absl::Duration timeout,
                                     Cancellation& cancellation);

 private:
  struct State;

  const std::shared_ptr<State> state_;  // the threads' as well
};

}  // namespace upscaled::server
