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

// IPv4 and IPv6 as texts, in the order in which they are to be tried.
using HostAddresses = std::vector<std::string>;

// As the system has them, however long it takes. NOT_FOUND says why there are none.
absl::StatusOr<HostAddresses> LookUpHost(const std::string& host);

// Look-ups that can be left. The system's cannot be ended, so each runs on a thread of its own,
// which may outlive this; all who ask for a name meanwhile wait for the same one. There are never
// more threads than names. Thread safe.
class HostLookups {
 public:
  using Function = std::function<absl::StatusOr<HostAddresses>(const std::string& host)>;

  explicit HostLookups(Function look_up = LookUpHost);

  // Waits for what the function returns; DEADLINE_EXCEEDED: for `timeout`; what `cancellation`
  // says. RESOURCE_EXHAUSTED: there was no memory.
  absl::StatusOr<HostAddresses> Find(const std::string& host, absl::Duration timeout,
                                     Cancellation& cancellation);

 private:
  struct State;

  const std::shared_ptr<State> state_;  // the threads' as well
};

}  // namespace upscaled::server
