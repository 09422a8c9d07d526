// A call with one message each way over a completion queue.
//
// The handler's reservation is kept until the answer has left, so that clients which do not
// read cannot make the server hold more than its memory budget; after a while they are given up.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/rpc/call.h"
#include "server/rpc/grpc_status.h"

namespace upscaled::server {

// One unary method of a service.
template <typename Request, typename Response>
struct UnaryMethod {
  std::string name;
  // The generated RequestX of the service.
  std::function<void(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                     grpc::ServerCompletionQueue*, void* tag)>
      request_call;
  std::function<absl::Status(CallContext, const Request&, Response&)> handler;
  // Whether the handler works for its answer: takes a slot and runs on a request worker. Others
  // answer from memory at once, on gRPC's thread.
  bool on_worker = false;
};

template <typename Request, typename Response>
class UnaryCall final : public Call {
 public:
  using Method = UnaryMethod<Request, Response>;

  // Makes one more call of `method` (which must outlive it) ready to be called.
  static void Listen(CallEnvironment& environment, const Method& method,
                     grpc::ServerCompletionQueue& queue) {
    auto call = std::make_shared<UnaryCall>(environment, method, queue);
    call->NotifyWhenDone();
    method.request_call(&call->context(), &call->request_, &call->writer_, &queue,
                        call->started_.Arm(call));
  }

  UnaryCall(CallEnvironment& environment, const Method& method, grpc::ServerCompletionQueue& queue)
      : Call(environment, method.name), method_(method), queue_(queue) {}

 private:
  void OnStarted(bool ok) {
    if (!Start(ok)) return;
    Listen(environment(), method_, queue_);
    if (!method_.on_worker) {
      RunHandler();
    } else if (absl::Status refusal = RunOnWorker([this] { RunHandler(); }); !refusal.ok()) {
      Finish(refusal);
    }
  }

  void RunHandler() {
    Finish(Guard([this] { return method_.handler(MakeCallContext(), request_, response_); }));
  }

  void Finish(const absl::Status& status) {
    if (!status.ok()) ReleaseReservation();
    const grpc::Status result = Conclude(status);
    stall_alarm_.Set(&queue_, absl::ToChronoTime(absl::Now() + environment().stall_timeout),
                     stalled_.Arm(shared_from_this()));
    if (status.ok())
      on_cancel_ = cancellation().OnCancel([this] { GiveUp(cancellation().status()); });
    void* tag = finish_.Arm(shared_from_this());
    if (result.ok()) {
      writer_.Finish(response_, result, tag);
    } else {
      writer_.FinishWithError(result, tag);
    }
  }

  void OnStalled(bool expired) {
    if (!expired) return;  // the answer has left
    GiveUp(MakeError(absl::StatusCode::kAborted, ErrorReason::kStalled,
                     absl::StrCat("the client took none of its result for ",
                                  absl::FormatDuration(environment().stall_timeout))));
  }

  void GiveUp(const absl::Status& reason) { CancelWith(ToGrpcStatus(reason, record().request_id)); }

  void OnFinished(bool) {
    stall_alarm_.Cancel();
    ReleaseReservation();
  }

  const Method& method_;
  grpc::ServerCompletionQueue& queue_;
  Request request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> writer_{&context()};
  CompletionTag started_{[this](bool ok) { OnStarted(ok); }};
  CompletionTag finish_{[this](bool ok) { OnFinished(ok); }};
  CompletionTag stalled_{[this](bool ok) { OnStalled(ok); }};
  grpc::Alarm stall_alarm_;
  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

template <typename Request, typename Response>
void Listen(CallEnvironment& environment, const UnaryMethod<Request, Response>& method,
            grpc::ServerCompletionQueue& queue) {
  UnaryCall<Request, Response>::Listen(environment, method, queue);
}

}  // namespace upscaled::server
