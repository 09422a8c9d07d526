// The completion queues of the server and their threads.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

namespace upscaled::server {

// Several queues keep calls from contending for one. Several threads for each keep a call from
// waiting for another one's handler.
class CompletionQueues {
 public:
  CompletionQueues(grpc::ServerBuilder& builder, int queues);
  // Shut down before.
  ~CompletionQueues();

  const std::vector<std::unique_ptr<grpc::ServerCompletionQueue>>& queues() const {
    return queues_;
  }

  // Call once, after the server was built.
  void StartThreads(int threads_per_queue);
  // Returns when every tag has come back. The server must have been shut down, and no thread may
  // start an operation any more.
  void Shutdown();

 private:
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::thread> threads_;
};

}  // namespace upscaled::server
