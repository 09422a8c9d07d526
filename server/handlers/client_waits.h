// Wraps a computation's input and output, and reports time blocked on the client to its
// RequestFlow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/batching/request_flow.h"

namespace upscaled::server {

// `source` and `flow` must outlive it.
class ClientSource final : public ByteSource {
 public:
  ClientSource(ByteSource& source, RequestFlow& flow) : source_(source), flow_(flow) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const RequestFlow::ClientWait wait(flow_);
    return source_.Read(dst);
  }

 private:
  ByteSource& source_;
  RequestFlow& flow_;
};

// `sink` and `flow` must outlive it.
class ClientSink final : public ByteSink {
 public:
  ClientSink(ByteSink& sink, RequestFlow& flow) : sink_(sink), flow_(flow) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    const RequestFlow::ClientWait wait(flow_);
    return sink_.Write(bytes);
  }

 private:
  ByteSink& sink_;
  RequestFlow& flow_;
};

}  // namespace upscaled::server
