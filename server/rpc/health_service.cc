#include "server/rpc/health_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/rpc/typed_method.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

constexpr absl::Duration kWatchRetryDelay = absl::Seconds(10);

Method HealthMethod(const std::string& name) {
  return {.path = absl::StrCat("/grpc.health.v1.Health/", name),
          .name = name,
          .request = &HealthCheckRequest::default_instance(),
          .max_first_message_bytes = kMaxSmallMessageBytes,
          .recorded = false,
          .role = std::nullopt};
}

}  // namespace

// One call of Watch, until the client goes or the server cancels all calls.
class HealthService::Watcher final : public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(HealthService& health, std::shared_ptr<Call> call, std::string service)
      : health_(health), call_(std::move(call)), service_(std::move(service)) {}

  const std::string& address() const { return call_->address(); }

  void Start() {
    call_->TellWhenIdle([weak = weak_from_this()] {
      if (const auto watcher = weak.lock()) watcher->Update();
    });
    on_cancel_ = call_->cancellation().OnCancel([this] { End(); });
    Update();
  }

  // Sends the status unless the client has it or another one is being sent. The next update follows
  // it.
  void Update() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto now = health_.StatusOf(service_);  // in here: an older one must not be sent later
    if (sent_ == now) return;
    auto response = std::make_unique<HealthCheckResponse>();
    response->set_status(now);
    if (call_->SendIfIdle(std::move(response))) sent_ = now;
  }

 private:
  void End() {
    const std::shared_ptr<Watcher> self = shared_from_this();
    health_.RemoveWatcher(self);
    call_->EndWatch(call_->cancellation().status());
  }

  HealthService& health_;
  const std::shared_ptr<Call> call_;
  const std::string service_;
  absl::Mutex mutex_;
  std::optional<HealthCheckResponse::ServingStatus> sent_ ABSL_GUARDED_BY(mutex_);
  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

void HealthService::AddMethods(MethodTable& methods) {
  Method check = HealthMethod("Check");
  check.quick = UnaryHandler<HealthCheckRequest, HealthCheckResponse>(
      [this](CallContext, auto& request, auto& response) {
        return Check(request.service(), response);
      });
  Method watch = HealthMethod("Watch");
  watch.watch = [this](const std::shared_ptr<Call>& call, const auto& request) {
    Watch(call, static_cast<const HealthCheckRequest&>(request).service());
  };
  for (Method* method : {&check, &watch}) methods.emplace(method->path, *method);
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

void HealthService::SetReady(bool ready) {
  {
    absl::MutexLock lock(&mutex_);
    ready_ = ready;
  }
  Refresh();
}

void HealthService::Refresh() {
  std::set<std::shared_ptr<Watcher>> watchers;
  {
    absl::MutexLock lock(&mutex_);
    watchers = watchers_;
  }
  for (const auto& watcher : watchers) watcher->Update();
}

bool HealthService::serving() const {
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kServing || !ready_) return false;
  }
  return able_();
}

bool HealthService::stopped() const {
  absl::MutexLock lock(&mutex_);
  return state_ == State::kStopped;
}

size_t HealthService::watch_count() const {
  absl::MutexLock lock(&mutex_);
  return watchers_.size();
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

void HealthService::Watch(const std::shared_ptr<Call>& call, const std::string& service) {
  const auto watcher = std::make_shared<Watcher>(*this, call, service);
  bool full = false;
  {
    absl::MutexLock lock(&mutex_);
    full = watchers_.size() >= kMaxWatchers || !shares_.Fits(call->address(), 1);
    if (!full && watchers_.insert(watcher).second) shares_.Take(call->address(), 1);
  }
  if (full) {
    return call->EndWatch(MakeOverloaded(
        absl::StrCat("the server's health is watched by as many calls as may at a time: ",
                     kMaxWatchers, ", and ", kMaxWatchersOfAddress, " of one address"),
        kWatchRetryDelay, {{"limit", "watchers"}, {"maximum", absl::StrCat(kMaxWatchers)}}));
  }
  watcher->Start();
}

void HealthService::RemoveWatcher(const std::shared_ptr<Watcher>& watcher) {
  absl::MutexLock lock(&mutex_);
  if (watchers_.erase(watcher) > 0) shares_.Give(watcher->address(), 1);
}

}  // namespace upscaled::server
