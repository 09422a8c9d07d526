#include "server/lifecycle/idle_trim.h"

namespace upscaled::server {

void IdleTrim::Look() {
  const AdmissionState state = admission_.state();
  const bool idle = state.requests == 0 && state.memory_bytes == 0;
  if (!idle || state.calls_admitted == calls_before_) return;
  calls_before_ = state.calls_admitted;
  trim_();
}

}  // namespace upscaled::server
