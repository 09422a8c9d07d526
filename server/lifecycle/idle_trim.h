// Memory kept by the process from one call to the next: given back once none runs.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "server/admission/admission.h"

namespace upscaled::server {

// Thread compatible.
class IdleTrim {
 public:
  // `trim` gives the memory back. `admission` must outlive this.
  IdleTrim(const AdmissionController& admission, std::function<void()> trim)
      : admission_(admission), trim_(std::move(trim)) {}

  // To be called every few seconds: calls in quick succession find the memory. Trims once after the
  // last call has ended and all its reservations are free.
  void Look();

 private:
  const AdmissionController& admission_;
  const std::function<void()> trim_;
  int64_t calls_before_ = 0;  // those that were admitted before it trimmed last
};

}  // namespace upscaled::server
