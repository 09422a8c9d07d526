#include "client/http/http_client.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/http/http_image_call.h"
#include "engine/base/status_macros.h"
#include "proto/json/message_json.h"

namespace upscaled::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr int kServiceUnavailable = 503;
constexpr size_t kMaxAnswerBytes = size_t{16} << 20;  // of all that is no image

}  // namespace

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(const HttpClientOptions& options,
                                                               RetryClock& clock) {
  ASSIGN_OR_RETURN(HttpTarget target,
                   HttpTarget::Create(options.server, options.tls, options.api_key));
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(target), options, clock));
}

std::unique_ptr<HttpTransfers> HttpClient::TakeTransfers() {
  absl::MutexLock lock(&mutex_);
  if (idle_.empty()) return std::make_unique<HttpTransfers>();
  std::unique_ptr<HttpTransfers> transfers = std::move(idle_.back());
  idle_.pop_back();
  return transfers;
}

void HttpClient::GiveBack(std::unique_ptr<HttpTransfers> transfers) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(transfers));
}

absl::StatusOr<ImageResult> HttpClient::UpscaleImage(const ImageRequest& request,
                                                     ImageSource& source, ImageSink& sink,
                                                     ImageObserver& observer,
                                                     std::stop_token stop) {
  if (request.name_only) return absl::UnimplementedError("results are named over gRPC only");
  const absl::Time deadline = clock_.Now() + timeout_;
  std::unique_ptr<HttpTransfers> transfers = TakeTransfers();
  const absl::Cleanup give_back = [&] { GiveBack(std::move(transfers)); };
  OperationSpan span = NewSpan("UpscaleImage");
  ImageResult result;
  const auto attempt = [&](int number) {
    result = ImageResult{.attempts = number};
    Attempt outcome;
    outcome.status = HttpImageCall(target_, *transfers, source, sink, observer)
                         .Run(request, span.traceparent(), priority_, deadline, stop, result);
    if (!outcome.status.ok()) outcome.repeatable = source.Rewind().ok() && sink.Restart().ok();
    return outcome;
  };
  const absl::Status status = RunWithRetries(
      retry_, clock_, deadline, stop, attempt,
      [&](const absl::Status& error, absl::Duration wait) { observer.OnRetry(error, wait); });
  RETURN_IF_ERROR(span.End(status, result.attempts));
  return result;
}

HttpClient::Answer HttpClient::Get(const std::string& path, const OperationSpan& span,
                                   absl::Time deadline, std::stop_token stop) {
  std::unique_ptr<HttpTransfers> transfers = TakeTransfers();
  Answer answer;
  const auto take = [&answer](absl::string_view bytes) {
    absl::StrAppend(&answer.body, bytes);
    if (answer.body.size() <= kMaxAnswerBytes) return absl::OkStatus();
    return WithOrigin(
        absl::InternalError(absl::StrCat("the answer has more than ", kMaxAnswerBytes, " bytes")),
        ErrorOrigin::kServer);
  };
  {
    HttpTransfer transfer(target_, {.path = path, .traceparent = span.traceparent()},
                          {.on_body = take});
    transfers->Start(transfer);
    answer.status = transfers->Await(transfer, deadline, stop);
    if (answer.status.ok()) answer.status = transfer.status();
    answer.http_status = transfer.http_status();
    transfers->Remove(transfer);
  }
  GiveBack(std::move(transfers));
  return answer;
}

template <typename Response>
absl::StatusOr<Response> HttpClient::GetMessage(const char* operation, const std::string& path,
                                                std::stop_token stop) {
  const absl::Time deadline = clock_.Now() + timeout_;
  OperationSpan span = NewSpan(operation);
  int attempts = 0;
  std::string json;
  const auto attempt = [&](int number) -> Attempt {
    attempts = number;
    Answer answer = Get(path, span, deadline, stop);
    json = std::move(answer.body);
    return {std::move(answer.status)};
  };
  const absl::Status status = RunWithRetries(retry_, clock_, deadline, stop, attempt, IgnoreWait);
  RETURN_IF_ERROR(span.End(status, attempts));
  Response response;
  if (ReadMessageJson(json, response)) return response;
  return WithOrigin(
      absl::UnimplementedError(absl::StrCat("what ", target_.server(), path,
                                            " answers is not what an upscaled server does")),
      ErrorOrigin::kServer);
}

absl::StatusOr<v1::ListModelsResponse> HttpClient::ListModels(std::stop_token stop) {
  return GetMessage<v1::ListModelsResponse>("ListModels", "/v1/models", std::move(stop));
}

absl::StatusOr<v1::GetServerInfoResponse> HttpClient::ServerInfo(std::stop_token stop) {
  return GetMessage<v1::GetServerInfoResponse>("GetServerInfo", "/v1/info", std::move(stop));
}

absl::StatusOr<HealthCheckResponse::ServingStatus> HttpClient::CheckHealth(
    const std::string& service, std::stop_token stop) {
  if (!service.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the health of one service (", service, ") needs a gRPC server, HOST:PORT"));
  }
  OperationSpan span = NewSpan("CheckHealth");
  const Answer answer = Get("/v2/health/ready", span, clock_.Now() + timeout_, std::move(stop));
  (void)span.End(answer.status, 1);
  if (answer.http_status == kServiceUnavailable) return HealthCheckResponse::NOT_SERVING;
  RETURN_IF_ERROR(answer.status);
  return HealthCheckResponse::SERVING;
}

}  // namespace upscaled::client
