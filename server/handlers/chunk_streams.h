// The bytes of an image in the messages of a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/admission/admission.h"
#include "server/calls/call_context.h"
#include "server/calls/message_stream.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// The chunks of an upload. Counts them in the call's record and against its payer's limits.
class ChunkSource final : public ByteSource {
 public:
  // All must outlive it.
  ChunkSource(MessageReader<upscale::v1::UpscaleImageRequest>& reader,
              AdmissionController& admission, const CallContext& context)
      : reader_(reader), admission_(admission), context_(context) {}

  // Also INVALID_ARGUMENT for a message without a chunk, and for more bytes than a source may have.
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override;

 private:
  MessageReader<upscale::v1::UpscaleImageRequest>& reader_;
  AdmissionController& admission_;
  const CallContext& context_;
  upscale::v1::UpscaleImageRequest message_;
  size_t position_ = 0;
};

// The chunks of a result. `writer` must outlive it.
class ChunkSink final : public ByteSink {
 public:
  explicit ChunkSink(MessageWriter<upscale::v1::UpscaleImageResponse>& writer) : writer_(writer) {}

  absl::Status Write(std::span<const uint8_t> bytes) override;
  // Sends the rest, once the result is written.
  absl::Status Flush();

 private:
  MessageWriter<upscale::v1::UpscaleImageResponse>& writer_;
  std::string chunk_;
};

}  // namespace upscaled::server
