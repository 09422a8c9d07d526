#include "server/rpc/completion_queues.h"

#include "engine/base/thread_name.h"
#include "server/rpc/completion_tag.h"

namespace upscaled::server {

CompletionQueues::CompletionQueues(grpc::ServerBuilder& builder, int queues) {
  for (int i = 0; i < queues; ++i) queues_.push_back(builder.AddCompletionQueue());
}

CompletionQueues::~CompletionQueues() { Shutdown(); }

void CompletionQueues::StartThreads(int threads_per_queue) {
  for (const auto& queue : queues_) {
    for (int i = 0; i < threads_per_queue; ++i) {
      threads_.emplace_back([&queue = *queue] {
        NameThread("grpc-calls");
        void* tag = nullptr;
        bool ok = false;
        while (queue.Next(&tag, &ok)) static_cast<CompletionTag*>(tag)->Complete(ok);
      });
    }
  }
}

void CompletionQueues::Shutdown() {
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const auto& queue : queues_) {  // without threads, the end still has to be taken out
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) {
    }
  }
  queues_.clear();
}

}  // namespace upscaled::server
