// Hands accepted sockets to a gRPC server.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/unique_fd.h"

namespace upscaled::server {

// Thread safe. Begins closed.
class ConnectionIntake {
 public:
  // `server` must outlive the next Close.
  void Open(grpc::Server& server) ABSL_LOCKS_EXCLUDED(mutex_);
  // Afterwards the server is not used any more. Returns whether it was open.
  bool Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Has the server serve the client at the other end of `socket`, a connected and non-blocking one,
  // without TLS. While this is closed, so is the socket.
  void Add(UniqueFd socket) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  grpc::Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: closed
};

}  // namespace upscaled::server
