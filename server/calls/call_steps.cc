#include "server/calls/call_steps.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMachineRetryDelay = absl::Seconds(1);

}  // namespace

absl::Status OutOfMemory() {
  return MakeOverloaded("the machine is out of memory", kMachineRetryDelay);
}

absl::Status OutOfThreads() {
  return MakeOverloaded("the machine has no thread to spare", kMachineRetryDelay);
}

void RecordCaller(const Principal* caller, RequestRecord& record) {
  if (caller == nullptr) return;
  record.key = caller->name;
  record.tenant = caller->tenant;
  record.tenant_has_limits = caller->limits != nullptr;
}

Payer PayerOf(std::string address, const Principal* caller) {
  if (caller == nullptr) return {.address = std::move(address)};
  return {.address = std::move(address), .tenant = caller->tenant, .limits = caller->limits};
}

absl::Status ReadPriority(std::string_view asked, Payer& payer) {
  if (asked.empty()) return absl::OkStatus();
  const ErrorMetadata metadata = {{"field", kPriorityField}};
  const std::optional<Priority> priority = ParsePriority(asked);
  if (!priority.has_value()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
        absl::StrCat(kPriorityField, " is \"", absl::CHexEscape(std::string(asked.substr(0, 40))),
                     "\"; there are interactive and background"),
        metadata);
  }
  payer.asked = *priority;
  if (payer.priority() == payer.asked) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied, ErrorReason::kPermissionDenied,
                   absl::StrCat(kPriorityField, " is interactive, and calls of the tenant ",
                                payer.tenant, " have the priority background"),
                   metadata);
}

Watchdog::Id WatchCallTime(Watchdog& watchdog, const Payer& payer,
                           std::function<void(const absl::Status&)> end) {
  if (payer.limits == nullptr || payer.limits->max_call_time == absl::InfiniteDuration()) return {};
  return watchdog.Watch(payer.limits->max_call_time, [limits = payer.limits, end = std::move(end)] {
    end(CallTimeExceeded(*limits));
  });
}

void RecordTrace(const CallEnvironment& environment, std::string_view traceparent, absl::Time start,
                 RequestRecord& record) {
  record.start = start;
  record.trace = ContinueTrace(traceparent, environment.trace_ratio);
}

absl::Time EndOf(absl::Time start, const Payer& payer, absl::Time deadline) {
  if (payer.limits == nullptr) return deadline;
  return std::min(deadline, start + payer.limits->max_call_time);
}

absl::Status RunOnWorker(CallEnvironment& environment, int64_t memory_bytes, const Payer& payer,
                         AdmissionController::CallSlot& slot, std::function<void()> job,
                         AdmissionController::GiveWay give_way) {
  ASSIGN_OR_RETURN(slot, environment.admission.AdmitCall(memory_bytes, payer, std::move(give_way)));
  return environment.workers.Run(std::move(job)) ? absl::OkStatus() : OutOfThreads();
}

absl::Status GuardHandler(RequestRecord& record, const std::function<absl::Status()>& handler) {
  try {
    return handler();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) return OutOfThreads();
    record.message = error.what();
  } catch (const std::exception& error) {
    record.message = error.what();
  } catch (...) {
    record.message = "an exception of no known type";
  }
  return MakeError(absl::StatusCode::kInternal, ErrorReason::kInternal,
                   "an internal error, which the server's log describes");
}

void CloseRecord(RequestRecord& record, const absl::Status& status, absl::Duration total) {
  record.code = status.code();
  record.total = total;
  if (status.ok()) return;
  record.reason = ErrorReasonName(ReasonOf(status));
  if (record.message.empty()) record.message = std::string(status.message());
  if (const ErrorMetadata metadata = MetadataOf(status); metadata.contains("limit")) {
    record.limit = metadata.at("limit");
  }
}

}  // namespace upscaled::server
