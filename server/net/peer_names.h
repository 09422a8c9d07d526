// Names the clients behind the sockets given to gRPC, because it knows them only as "fd:12".
#pragma once

#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/unique_fd.h"
#include "server/base/peer_address.h"
#include "server/net/descriptors.h"

namespace upscaled::server {

// Thread safe. An entry stays until its descriptor is reused, so calls begun after their
// connection's end still find it. Descriptor numbers rotate below the reserved ones, so reuse takes
// thousands of connections if the limit of descriptors allows as many. A call must not be taken for
// the next client's, which may have more rights.
class PeerNames {
 public:
  // Numbers go round up to here or to the reserved ones, unless more are open.
  static constexpr int kNumbers = 16384;

  explicit PeerNames(int reserved_descriptors = kReservedDescriptors)
      : reserved_descriptors_(reserved_descriptors) {}

  // The client's socket, under a number of its own (under its old number if all unreserved ones are
  // in use).
  UniqueFd Add(UniqueFd socket, PeerAddress client) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client of "fd:12"; `peer` itself, as name and host, if it was not set.
  PeerAddress Find(std::string_view peer) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The socket under the lowest free number from `first` on; invalid: that is a reserved one.
  UniqueFd MoveTo(int first, const UniqueFd& socket) const;

  const int reserved_descriptors_;
  mutable absl::Mutex mutex_;
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<PeerAddress> clients_ ABSL_GUARDED_BY(mutex_);  // by descriptor
};

}  // namespace upscaled::server
