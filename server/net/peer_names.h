// The clients behind the sockets that gRPC was given: it knows them as "fd:12" alone.
#pragma once

#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/peer_address.h"

namespace upscaled::server {

// Thread safe. A client stays until its descriptor is given out again, so that calls find it that
// begin after their connection has ended; one that begins after the number was given out again is
// taken for the next client's. As many as there were descriptors.
class PeerNames {
 public:
  void Set(int fd, PeerAddress client) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client of "fd:12"; `peer` itself, as name and host, when it is none of those that were set.
  PeerAddress Find(std::string_view peer) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::vector<PeerAddress> clients_ ABSL_GUARDED_BY(mutex_);  // by descriptor
};

}  // namespace upscaled::server
