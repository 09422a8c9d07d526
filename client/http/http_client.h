// A client of the service over HTTP.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/http/http_target.h"
#include "client/http/http_transfer.h"
#include "client/retry.h"
#include "client/service.h"
#include "client/tracer.h"

namespace upscaled::client {

struct HttpClientOptions {
  std::string server = "http://127.0.0.1:8000";  // see HttpTarget::Create
  std::optional<TlsOptions> tls;                 // for https:// beyond what the system trusts
  RetryPolicy retry;
  // For one operation, its retries and waits included.
  absl::Duration timeout = absl::InfiniteDuration();
  std::string api_key;             // sent with every request, where not empty
  std::string traceparent;         // likewise: the trace that it belongs to
  std::shared_ptr<Tracer> tracer;  // takes a span of each operation; null: there are none
  std::string priority;            // of images: "interactive", "background" or "", the tenant's
};

class HttpClient final : public Service {
 public:
  // Does not connect yet. Errors as HttpTarget::Create's. `clock` must outlive it.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(const HttpClientOptions& options,
                                                            RetryClock& clock = RetryClock::Real());

  absl::StatusOr<ImageResult> UpscaleImage(const ImageRequest& request, ImageSource& source,
                                           ImageSink& sink, ImageObserver& observer,
                                           std::stop_token stop = {}) override;
  absl::StatusOr<v1::ListModelsResponse> ListModels(std::stop_token stop = {}) override;
  absl::StatusOr<v1::GetServerInfoResponse> ServerInfo(std::stop_token stop = {}) override;
  // INVALID_ARGUMENT for a `service`: HTTP tells only the whole server's health.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> CheckHealth(
      const std::string& service, std::stop_token stop = {}) override;

 private:
  HttpClient(HttpTarget target, const HttpClientOptions& options, RetryClock& clock)
      : target_(std::move(target)),
        retry_(options.retry),
        timeout_(options.timeout),
        traceparent_(options.traceparent),
        tracer_(options.tracer),
        priority_(options.priority),
        clock_(clock) {}
  // Kept connections, or new ones; to be given back.
  std::unique_ptr<HttpTransfers> TakeTransfers() ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(std::unique_ptr<HttpTransfers> transfers) ABSL_LOCKS_EXCLUDED(mutex_);
  struct Answer {
    absl::Status status;
    int http_status = 0;  // 0: there was none
    std::string body;     // of a success
  };
  OperationSpan NewSpan(const char* name) const {
    return OperationSpan(tracer_.get(), name, "http", traceparent_);
  }
  // GET `path`, once.
  Answer Get(const std::string& path, const OperationSpan& span, absl::Time deadline,
             std::stop_token stop);
  template <typename Response>
  absl::StatusOr<Response> GetMessage(const char* operation, const std::string& path,
                                      std::stop_token stop);

  const HttpTarget target_;
  const RetryPolicy retry_;
  const absl::Duration timeout_;
  const std::string traceparent_;
  const std::shared_ptr<Tracer> tracer_;
  const std::string priority_;
  RetryClock& clock_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<HttpTransfers>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::client
