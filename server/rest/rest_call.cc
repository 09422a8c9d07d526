#include "server/rest/rest_call.h"

#include <algorithm>
#include <utility>

#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/rest/problem.h"

namespace upscaled::server {
namespace {

absl::Status ClientGone() {
  return MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelled,
                   "the client cancelled the call or went away");
}

absl::Status DeadlinePassed() {
  return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                   "the call's deadline passed (timeout)");
}

}  // namespace

RestCall::RestCall(RestHost& host, std::unique_ptr<HttpExchange> exchange, std::string method)
    : host_(host),
      entry_(host.calls.registry),
      exchange_(std::move(exchange)),
      payer_(PayerOf(exchange_->request().peer, exchange_->request().caller.get())),
      start_(host.calls.clock.Now()),
      record_{.transport = kHttpTransport, .method = std::move(method), .peer = payer_.address},
      deadline_(EndOf(start_, payer_, absl::InfiniteFuture())),
      sink_(*exchange_) {
  RecordTrace(host.calls, request().OnlyField(kTraceparent), start_, record_);
  RecordCaller(request().caller.get(), record_);
}

void RestCall::Start(int64_t memory_bytes) {
  if (const absl::Status refusal = Begin(); !refusal.ok()) return Refuse(refusal);
  Admit(memory_bytes);
}

void RestCall::StartWithBody(int64_t memory_bytes) {
  absl::Status refusal = Begin();
  if (refusal.ok()) refusal = host_.calls.admission.CheckCall(payer_);
  if (refusal.ok()) refusal = CheckHeader();
  if (!refusal.ok()) return Refuse(refusal);
  if (!AwaitsBody()) return Admit(memory_bytes);
  exchange_->OnBody([self = shared_from_this(), memory_bytes] { self->Admit(memory_bytes); });
}

void RestCall::StartWithoutSlot() {
  absl::Status refusal = Begin();
  if (refusal.ok()) refusal = host_.calls.admission.CheckOpen();
  if (refusal.ok())
    refusal = host_.questions.Run(payer_, [self = shared_from_this()] { self->Run(); });
  if (!refusal.ok()) Refuse(refusal);
}

absl::Status RestCall::Begin() {
  const std::weak_ptr<RestCall> weak = weak_from_this();
  exchange_->OnGone([weak] {
    if (const auto call = weak.lock()) call->GiveUp(ClientGone());
  });
  call_time_ = WatchCallTime(host_.calls.watchdog, payer_, [weak](const absl::Status& status) {
    if (const auto call = weak.lock()) call->GiveUp(status);
  });
  // By a weak pointer: the callback behind the body may be the last owner.
  on_cancel_ = cancellation().OnCancel([weak] {
    if (const auto call = weak.lock()) call->exchange_->Cancel(call->cancellation().status());
  });
  return ReadPriority(request().AllFields(kPriorityField), payer_);
}

void RestCall::Admit(int64_t memory_bytes) {
  const absl::Status refusal = RunOnWorker(
      host_.calls, memory_bytes, payer_, slot_, [self = shared_from_this()] { self->Run(); },
      [weak = weak_from_this()](const absl::Status& reason) {
        if (const auto call = weak.lock()) call->GiveUp(reason);
      });
  if (!refusal.ok()) Refuse(refusal);
}

void RestCall::Refuse(const absl::Status& refusal) {
  Conclude(refusal);
  Fail(refusal);
}

void RestCall::SetTimeout(absl::Duration timeout) {
  deadline_ = std::min(deadline_, start_ + timeout);
  timeout_ = host_.calls.watchdog.Watch(timeout - Elapsed(), [weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->GiveUp(DeadlinePassed());
  });
}

void RestCall::Conclude(const absl::Status& status) {
  CloseRecord(record_, status, Elapsed());
  host_.calls.on_finished(record_);
  host_.calls.watchdog.Drop(call_time_);
  host_.calls.watchdog.Drop(timeout_);
  slot_.Release();
}

void RestCall::Fail(const absl::Status& status) {
  if (sink_.begun()) return;
  exchange_->Send(WithCors(fault_.has_value() ? ProblemResponse(*fault_, record_.request_id)
                                              : ProblemResponse(status, record_.request_id)));
}

absl::Status RestCall::KeepFault(HttpFault fault) {
  fault_ = std::move(fault);
  return fault_->error;
}

HttpResponse RestCall::WithCors(HttpResponse response) const {
  for (HttpField& field : host_.cors.Fields(request())) response.fields.push_back(std::move(field));
  return response;
}

}  // namespace upscaled::server
