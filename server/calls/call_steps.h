// The steps of every call over either transport: a slot and a thread, a handler with possible
// exceptions, a closed record.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/admission/admission.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"
#include "server/calls/call_environment.h"
#include "server/calls/watchdog.h"

namespace upscaled::server {

// RESOURCE_EXHAUSTED (kOverloaded, with a retry delay).
absl::Status OutOfMemory();
absl::Status OutOfThreads();

// The field, or metadata, of a call for its priority.
inline constexpr char kPriorityField[] = "upscale-priority";

// Enters the caller into `record`; null: the server asks for no keys.
void RecordCaller(const Principal* caller, RequestRecord& record);

// The payer of a call of `caller` (as above) from `address`.
Payer PayerOf(std::string address, const Principal* caller);

// Enters a call's asked priority into `payer`: "interactive", "background" or "" (its tenant's).
// INVALID_ARGUMENT (kInvalidOption) for another one, PERMISSION_DENIED (kPermissionDenied) if it is
// earlier than its tenant's.
absl::Status ReadPriority(std::string_view asked, Payer& payer);

// Ends a call by `end`, on the timer's thread, when it has taken as long as the payer's tenant
// may let it; to be dropped at the call's end.
Watchdog::Id WatchCallTime(Watchdog& watchdog, const Payer& payer,
                           std::function<void(const absl::Status&)> end);

// Enters into `record` the beginning of a call, and its trace: the caller's, or its own.
// `traceparent` is empty where the caller says none, or several.
void RecordTrace(const CallEnvironment& environment, std::string_view traceparent, absl::Time start,
                 RequestRecord& record);

// The latest end of a call from `start` on: at `deadline`, or when its payer's tenant has it end.
absl::Time EndOf(absl::Time start, const Payer& payer, absl::Time deadline);

// Takes a slot for a call of `payer` with messages of `memory_bytes`, puts it into `slot`, and runs
// `job` on a request worker. Otherwise the refusal: as AdmissionController::AdmitCall, or
// RESOURCE_EXHAUSTED (kOverloaded) when there is no thread; `slot` may then hold one. `give_way`
// ends the call, as AdmitCall has it.
absl::Status RunOnWorker(CallEnvironment& environment, int64_t memory_bytes, const Payer& payer,
                         AdmissionController::CallSlot& slot, std::function<void()> job,
                         AdmissionController::GiveWay give_way);

// The result of `step` (a status or an absl::StatusOr); OutOfMemory() when it throws
// std::bad_alloc.
template <typename Step>
auto GuardMemory(const Step& step) -> decltype(step()) {
  try {
    return step();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

// The status of `handler`; when it throws, OutOfMemory() or INTERNAL (kInternal), with a
// description in `record`.
absl::Status GuardHandler(RequestRecord& record, const std::function<absl::Status()>& handler);

// Enters the call's end into `record`.
void CloseRecord(RequestRecord& record, const absl::Status& status, absl::Duration total);

}  // namespace upscaled::server
