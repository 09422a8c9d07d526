#include "server/rpc/health_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// Lives until the client goes or the server cancels all calls; holds no thread meanwhile.
class HealthService::WatchCall final : public Call {
 public:
  static void Listen(HealthService& health, grpc::ServerCompletionQueue& queue) {
    auto call = std::make_shared<WatchCall>(health, queue);
    call->NotifyWhenDone();
    health.service_.RequestWatch(&call->context(), &call->request_, &call->writer_, &queue, &queue,
                                 call->started_.Arm(call));
  }

  WatchCall(HealthService& health, grpc::ServerCompletionQueue& queue)
      : Call(health.calls_, "Watch"), health_(health), queue_(queue) {}

  // Sends the status unless the client has it, or the end of the call once that has come.
  void Update() ABSL_LOCKS_EXCLUDED(mutex_) {
    HealthCheckResponse::ServingStatus now;
    bool finish = false;
    {
      absl::MutexLock lock(&mutex_);
      now = health_.StatusOf(request_.service());  // in here: an older one must not be sent later
      finish = ended_;
      if (writing_ || (!finish && sent_ == now)) return;
      writing_ = true;
      sent_ = now;
    }
    if (finish) {
      writer_.Finish(Conclude(cancellation().status()), finish_.Arm(shared_from_this()));
    } else {
      HealthCheckResponse response;
      response.set_status(now);
      writer_.Write(response, write_.Arm(shared_from_this()));
    }
  }

 private:
  std::shared_ptr<WatchCall> Self() {
    return std::static_pointer_cast<WatchCall>(shared_from_this());
  }

  void OnStarted(bool ok) {
    if (!Start(ok)) return;
    Listen(health_, queue_);
    health_.AddWatch(Self());
    on_cancel_ = cancellation().OnCancel([this] { End(); });
    Update();
  }

  void OnWritten(bool) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
    }
    Update();  // it may have changed meanwhile
  }

  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    // When a shutdown ends a call that its client has just given up, gRPC has let go of it already.
    const std::shared_ptr<WatchCall> self = Self();
    health_.RemoveWatch(self);
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    Update();
  }

  HealthService& health_;
  grpc::ServerCompletionQueue& queue_;
  HealthCheckRequest request_;
  grpc::ServerAsyncWriter<HealthCheckResponse> writer_{&context()};
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;  // finishing included
  std::optional<HealthCheckResponse::ServingStatus> sent_ ABSL_GUARDED_BY(mutex_);
  CompletionTag started_{[this](bool ok) { OnStarted(ok); }};
  CompletionTag write_{[this](bool ok) { OnWritten(ok); }};
  CompletionTag finish_{[](bool) {}};
  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

HealthService::HealthService(CallEnvironment& calls, std::function<bool()> able)
    : calls_(calls), able_(std::move(able)) {
  check_ = {.name = "Check",
            .request_call =
                [this](auto* context, auto* request, auto* writer, auto* queue, void* tag) {
                  service_.RequestCheck(context, request, writer, queue, queue, tag);
                },
            .handler = [this](CallContext, auto& request,
                              auto& response) { return Check(request.service(), response); }};
}

void HealthService::Listen(grpc::ServerCompletionQueue& queue, int pending_calls) {
  for (int i = 0; i < pending_calls; ++i) {
    server::Listen(calls_, check_, queue);
    WatchCall::Listen(*this, queue);
  }
}

void HealthService::SetServing() { Change(State::kServing); }

void HealthService::Stop() { Change(State::kStopped); }

void HealthService::Change(State state) {
  {
    absl::MutexLock lock(&mutex_);
    state_ = std::max(state_, state);
  }
  Refresh();
}

void HealthService::Refresh() {
  std::set<std::shared_ptr<WatchCall>> watches;
  {
    absl::MutexLock lock(&mutex_);
    watches = watches_;
  }
  for (const auto& watch : watches) watch->Update();
}

bool HealthService::serving() const {
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kServing) return false;
  }
  return able_();
}

size_t HealthService::watch_count() const {
  absl::MutexLock lock(&mutex_);
  return watches_.size();
}

HealthCheckResponse::ServingStatus HealthService::StatusOf(const std::string& service) const {
  if (!service.empty() && service != upscale::v1::UpscaleService::service_full_name()) {
    return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  return serving() ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

absl::Status HealthService::Check(const std::string& service, HealthCheckResponse& response) {
  response.set_status(StatusOf(service));
  if (response.status() != HealthCheckResponse::SERVICE_UNKNOWN) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kInvalidOption,
                   absl::StrCat("no service ", service, " here; there are \"\" and ",
                                upscale::v1::UpscaleService::service_full_name()));
}

void HealthService::AddWatch(std::shared_ptr<WatchCall> watch) {
  absl::MutexLock lock(&mutex_);
  watches_.insert(std::move(watch));
}

void HealthService::RemoveWatch(const std::shared_ptr<WatchCall>& watch) {
  absl::MutexLock lock(&mutex_);
  watches_.erase(watch);
}

}  // namespace upscaled::server
