// The body of a request as it comes.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/admission/admission.h"
#include "server/http/http_exchange.h"

namespace upscaled::server {

// Both are borrowed. The call's slot knows that it waits for its client meanwhile.
class BodySource final : public ByteSource {
 public:
  BodySource(HttpExchange& exchange, AdmissionController::CallSlot& slot)
      : exchange_(exchange), slot_(slot) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    slot_.BeginWait();
    const absl::StatusOr<size_t> count = exchange_.Read(dst);
    slot_.EndWait(static_cast<int64_t>(count.value_or(0)));
    return count;
  }

 private:
  HttpExchange& exchange_;
  AdmissionController::CallSlot& slot_;
};

}  // namespace upscaled::server
