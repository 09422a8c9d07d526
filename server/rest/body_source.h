// The body of a request as it comes.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/admission/admission.h"
#include "server/http/http_exchange.h"

namespace upscaled::server {

// All are borrowed. The call's slot knows that it waits for its client meanwhile; the payer is
// charged for each byte that comes.
class BodySource final : public ByteSource {
 public:
  BodySource(HttpExchange& exchange, AdmissionController::CallSlot& slot,
             AdmissionController& admission, const Payer& payer)
      : exchange_(exchange), slot_(slot), admission_(admission), payer_(payer) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    slot_.BeginWait();
    const absl::StatusOr<size_t> count = exchange_.Read(dst);
    const auto bytes = static_cast<int64_t>(count.value_or(0));
    slot_.EndWait(bytes);
    admission_.Receive(payer_, bytes).IgnoreError();
    return count;
  }

 private:
  HttpExchange& exchange_;
  AdmissionController::CallSlot& slot_;
  AdmissionController& admission_;
  const Payer& payer_;
};

}  // namespace upscaled::server
