// One call as its handler sees it.
#pragma once

#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "server/admission/admission.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"

namespace upscaled::server {

struct CallContext {
  Cancellation& cancellation;
  RequestRecord& record;  // to be filled in, and the request's id as soon as it is known
  absl::Time start;
  AdmissionController::Reservation& reservation;  // to be filled in by the handler
  const Payer& payer;
  absl::Time deadline = absl::InfiniteFuture();  // by the clock of `start`
};

}  // namespace upscaled::server
