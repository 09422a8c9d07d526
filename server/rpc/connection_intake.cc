#include "server/rpc/connection_intake.h"

#include <utility>

#include <grpcpp/server_posix.h>

namespace upscaled::server {

void ConnectionIntake::Open(grpc::Server& server) {
  absl::MutexLock lock(&mutex_);
  server_ = &server;
}

bool ConnectionIntake::Close() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(server_, nullptr) != nullptr;
}

void ConnectionIntake::Add(UniqueFd socket) {
  absl::MutexLock lock(&mutex_);
  if (server_ != nullptr) grpc::AddInsecureChannelFromFd(server_, socket.Release());
}

}  // namespace upscaled::server
