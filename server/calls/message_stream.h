// A bidirectional call as its handler sees it: blocking reads and writes with back-pressure, and no
// gRPC.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled::server {

// The reader's side. One thread reads.
template <typename Request>
class MessageReader {
 public:
  virtual ~MessageReader() = default;
  // Waits for the next message. false: the client has sent all. ABORTED (kStalled) when too
  // little comes for too long; the reason when the call is cancelled.
  virtual absl::StatusOr<bool> Read(Request& request) = 0;
  // Tells that the read part is worth waiting on for: a client with little at a time has not
  // stalled.
  virtual void ReportProgress() {}
};

// The writer's side: a queue of bounded bytes, emptied by the client's reading. One thread calls
// Reserve. Sends may come from other threads and in any order, except over a method with spooled
// answers: there each Send follows its Reserve.
template <typename Response>
class MessageWriter {
 public:
  virtual ~MessageWriter() = default;
  // Waits until `bytes` fit into the queue (a message larger than the queue waits until it is
  // empty) and keeps this room. ABORTED (kStalled) when the client takes nothing for too long; the
  // reason when the call is cancelled.
  virtual absl::Status Reserve(size_t bytes) = 0;
  // Sends a message into room kept by Reserve, and never waits. Dropped when the call has been
  // cancelled. `held` is let go once the message has left.
  virtual void Send(Response response, size_t reserved_bytes,
                    std::shared_ptr<const void> held = nullptr) = 0;
  // Sends a small message unless others still wait to be sent. Never waits.
  virtual void SendIfIdle(Response response) = 0;

  absl::Status Write(Response response) {
    const size_t bytes = response.ByteSizeLong();
    if (absl::Status status = Reserve(bytes); !status.ok()) return status;
    Send(std::move(response), bytes);
    return absl::OkStatus();
  }
};

}  // namespace upscaled::server
