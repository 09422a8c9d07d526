#include "server/rpc/call.h"

#include <new>
#include <utility>

#include <grpc/grpc.h>

#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/rpc/grpc_status.h"

namespace upscaled::server {
namespace {

// A client whose deadline passes resets the call at once, a little before our own clock, which
// started with the call's arrival, says the same.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(100);

constexpr absl::Duration kMachineRetryDelay = absl::Seconds(1);

}  // namespace

Call::Call(CallEnvironment& environment, std::string method)
    : environment_(environment), entry_(environment.registry) {
  record_.method = std::move(method);
}

bool Call::Start(bool ok) {
  if (!ok) {
    done_.Disarm();  // gRPC reports the end of calls that began, and of no others
    return false;
  }
  start_time_ = environment_.clock.Now();
  record_.peer = context_.peer();
  return true;
}

void Call::OnDone(bool) {
  if (!context_.IsCancelled()) return;
  const bool late = absl::FromChrono(context_.deadline()) <= absl::Now() + kDeadlineSlack;
  cancellation().Cancel(late ? MakeError(absl::StatusCode::kDeadlineExceeded,
                                         ErrorReason::kDeadline, "the call's deadline passed")
                             : MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelled,
                                         "the client cancelled the call or went away"));
}

absl::Status Call::RunOnWorker(std::function<void()> handler, int64_t memory_bytes) {
  ASSIGN_OR_RETURN(slot_, environment_.admission.AdmitCall(memory_bytes));
  const bool runs = environment_.workers.Run(
      [self = shared_from_this(), handler = std::move(handler)] { handler(); });
  return runs ? absl::OkStatus()
              : MakeOverloaded("the machine has no thread to spare", kMachineRetryDelay);
}

absl::Status Call::Guard(const std::function<absl::Status()>& handler) {
  try {
    return handler();
  } catch (const std::bad_alloc&) {
    return MakeOverloaded("the machine is out of memory", kMachineRetryDelay);
  }
}

grpc::Status Call::Conclude(const absl::Status& status) {
  record_.code = status.code();
  record_.total = environment_.clock.Now() - start_time_;
  if (!status.ok()) {
    record_.reason = ErrorReasonName(ReasonOf(status));
    record_.message = std::string(status.message());
    AddRetryPushback(status, context_);
  }
  environment_.on_finished(record_);
  slot_.Release();
  return ToGrpcStatus(status, record_.request_id);
}

void Call::CancelWith(const grpc::Status& status) {
  grpc_call_cancel_with_status(context_.c_call(),
                               static_cast<grpc_status_code>(status.error_code()),
                               status.error_message().c_str(), nullptr);
}

}  // namespace upscaled::server
