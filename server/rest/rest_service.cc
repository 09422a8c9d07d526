#include "server/rest/rest_service.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "proto/json/message_json.h"
#include "server/admission/limits.h"
#include "server/base/error.h"
#include "server/handlers/info_handlers.h"
#include "server/identity/url_keys.h"
#include "server/options/request_options.h"
#include "server/rest/batch_call.h"
#include "server/rest/job_calls.h"
#include "server/rest/job_events.h"
#include "server/rest/json_answer.h"
#include "server/rest/page_routes.h"
#include "server/rest/problem.h"
#include "server/rest/result_call.h"
#include "server/rest/upscale_call.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr char kUpscalePath[] = "/v1/upscale";
constexpr char kResultPath[] = "/v1/results/{id}";
constexpr char kJobsPath[] = "/v1/jobs";
constexpr char kJobPath[] = "/v1/jobs/{id}";
constexpr char kJobEventsPath[] = "/v1/jobs/{id}/events";
constexpr char kJobResultPath[] = "/v1/jobs/{id}/result";
constexpr char kProgressPath[] = "/v1/progress/{request_id}";
// Images of the largest size for a batch; more of smaller ones.
constexpr uint64_t kMaxBatchImages = 16;
// Fields and boundaries of a form around its image.
constexpr uint64_t kFormSlackBytes = uint64_t{1} << 20;

// Begins a `Call` for each request.
template <typename Call>
HttpStreamHandler Begin(RestHost& host) {
  return
      [&host](std::unique_ptr<HttpExchange> exchange) { Call::Begin(host, std::move(exchange)); };
}

void Append(std::vector<HttpRoute> more, std::vector<HttpRoute>& routes) {
  routes.insert(routes.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

// An address's share of the listeners is its share of the calls. So a proxy with all clients behind
// its address can be given all of both.
int ListenersPerAddress(const Limits& limits) {
  const int64_t listeners = ProgressStreams::kMaxListeners;
  const int64_t share =
      listeners * MaxRequestsPerAddress(limits) / std::max(limits.max_concurrent_requests, 1);
  return static_cast<int>(std::max<int64_t>(share, 1));
}

// The answer's message as JSON.
using JsonSource = std::function<absl::StatusOr<std::string>(const HttpRequest&)>;

// A route logged and counted as its method of the contract.
HttpRoute InfoRoute(RestHost& host, std::string path, std::string description, std::string method,
                    JsonSource source) {
  const std::string name = method;
  return {.method = "GET",
          .path = std::move(path),
          .description = std::move(description),
          .handler =
              [&host, method = std::move(method), source = std::move(source)](
                  const HttpRequest& request, std::unique_ptr<HttpResponseWriter> writer) {
                HttpResponse response =
                    AnswerWithJson(host.calls, request, method, [&] { return source(request); });
                for (HttpField& field : host.cors.Fields(request)) {
                  response.fields.push_back(std::move(field));
                }
                writer->Send(std::move(response));
              },
          .role = Role::kRead,
          .name = name};
}

// Answered from memory.
std::vector<HttpRoute> InfoRoutes(RestHost& host) {
  const HandlerEnvironment& handlers = host.handlers;
  return {
      InfoRoute(host, "/v1/models", "the models on offer", "ListModels",
                [&handlers](const HttpRequest&) { return MessageToJson(ListModels(handlers)); }),
      InfoRoute(host, "/v1/models/{name}", "one model", "GetModel",
                [&handlers](const HttpRequest& request) -> absl::StatusOr<std::string> {
                  pb::GetModelRequest wanted;
                  wanted.set_name(request.parameter);
                  pb::GetModelResponse response;
                  RETURN_IF_ERROR(GetModel(handlers, wanted, response));
                  return MessageToJson(response);
                }),
      InfoRoute(host, "/v1/info", "version, devices, limits and formats", "GetServerInfo",
                [&handlers](const HttpRequest&) { return MessageToJson(GetServerInfo(handlers)); }),
  };
}

// Answers browsers' questions about requests from a page of another origin.
std::vector<HttpRoute> PreflightRoutes(const std::vector<HttpRoute>& routes, const Cors& cors) {
  std::map<std::string, std::string> methods;
  for (const HttpRoute& route : routes) {
    std::string& list = methods[route.path];
    absl::StrAppend(&list, list.empty() ? "" : ", ", MethodsOf(route));
  }
  std::vector<HttpRoute> preflights;
  for (const auto& [path, list] : methods) {
    preflights.push_back({.method = "OPTIONS",
                          .path = path,
                          .handler =
                              [&cors, list = list](const HttpRequest& request,
                                                   std::unique_ptr<HttpResponseWriter> writer) {
                                writer->Send(cors.Preflight(request, list));
                              },
                          .role = std::nullopt});  // browsers ask before they show a key
  }
  return preflights;
}

}  // namespace

RestService::RestService(const HandlerEnvironment& handlers, CallEnvironment& calls,
                         RestOptions options)
    : cors_(std::move(options.cors_origins)),
      fetcher_(std::move(options.fetch)),
      web_(options.web),
      signed_urls_(options.signed_urls),
      board_(calls.clock),
      host_{handlers, calls,      cors_,        fetcher_,
            board_,   questions_, options.jobs, options.signed_max_age},
      streams_(board_, calls.timer, calls.clock, ListenersPerAddress(calls.admission.limits())),
      job_streams_(calls.timer, calls.clock, JobFeed::kPeriod,
                   ListenersPerAddress(calls.admission.limits())) {}

// A caller with the right to submit a job may ask for it.
std::vector<HttpRoute> RestService::JobRoutes() {
  return {
      {.method = "GET",
       .path = kJobsPath,
       .description = "the caller's jobs, the latest first",
       .stream = Begin<JobListCall>(host_),
       .role = Role::kUpscale,
       .name = "ListJobs"},
      {.method = "POST",
       .path = kJobsPath,
       .description = "a batch of images, each of which becomes a job",
       .stream = Begin<BatchCall>(host_),
       .max_body_bytes =
           kMaxBatchImages * static_cast<uint64_t>(host_.calls.admission.limits().max_source_bytes),
       .role = Role::kUpscale,
       .name = "SubmitJobs"},
      {.method = "GET",
       .path = kJobPath,
       .description = "a job that was submitted with Prefer: respond-async",
       .stream = Begin<JobCall>(host_),
       .role = Role::kUpscale,
       .name = "GetJob"},
      {.method = "DELETE",
       .path = kJobPath,
       .stream = Begin<JobCall>(host_),
       .role = Role::kUpscale,
       .name = "CancelJob"},
      {.method = "GET",
       .path = kJobEventsPath,
       .description = "a job as it changes, as server-sent events",
       .stream = [this](std::unique_ptr<HttpExchange> exchange) { StreamJob(std::move(exchange)); },
       .role = Role::kUpscale,
       .name = "GetJobEvents"},
      {.method = "GET",
       .path = kJobResultPath,
       .description = "its result",
       .stream = Begin<JobResultCall>(host_),
       .role = Role::kUpscale,
       .name = "GetJobResult"}};
}

std::vector<HttpRoute> RestService::CallRoutes() {
  const uint64_t max_body_bytes =
      static_cast<uint64_t>(host_.calls.admission.limits().max_source_bytes) + kFormSlackBytes;
  return {
      {.method = "POST",
       .path = kUpscalePath,
       .description = "an image, upscaled",
       .stream = Begin<UpscaleCall>(host_),
       .max_body_bytes = max_body_bytes,
       .role = Role::kUpscale,
       .name = "Upscale"},
      {.method = "GET",  // of signed URLs, and for the sake of HEAD
       .path = kUpscalePath,
       .stream =
           [this](std::unique_ptr<HttpExchange> exchange) {
             const HttpRequest& request = exchange->request();
             const bool is_signed = request.signed_until.has_value();
             if (request.method == "GET" && !is_signed) return RefuseGet(*exchange);
             UpscaleCall::Begin(host_, std::move(exchange));
           },
       .max_body_bytes = max_body_bytes,
       .role = Role::kUpscale,
       .name = "Upscale",
       .head_only = !signed_urls_,
       .takes_signed_urls = signed_urls_},
      {.method = "GET",
       .path = kResultPath,
       .description = "a result that is stored, by its ETag",
       .stream = Begin<ResultCall>(host_),
       .role = Role::kRead,
       .name = "GetResult"},
      {.method = "GET",
       .path = kProgressPath,
       .description = "how far a request is, as server-sent events",
       .stream =
           [this](std::unique_ptr<HttpExchange> exchange) { StreamProgress(std::move(exchange)); },
       .role = Role::kRead,
       .name = "GetProgress"}};
}

HttpFaultAnswer RestService::FaultAnswer() const {
  return [this](const HttpFault& fault, const HttpRequest& request) {
    HttpResponse response = ProblemResponse(fault);
    for (HttpField& field : cors_.Fields(request)) response.fields.push_back(std::move(field));
    return response;
  };
}

void RestService::RefuseGet(HttpExchange& exchange) const {
  if (signed_urls_) {
    const absl::Status refusal = LacksUrlSignature();
    return exchange.Send(FaultAnswer()({HttpStatusOf(refusal), refusal}, exchange.request()));
  }
  const std::string allowed = cors_.enabled() ? "POST, HEAD, OPTIONS" : "POST, HEAD";
  const HttpFault fault{
      405,
      MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kUnspecified,
                absl::StrCat("\"", kUpscalePath, "\" takes ", allowed,
                             ", not GET; signed URLs need this server's setting --url-keys")),
      {{"Allow", allowed}}};
  exchange.Send(FaultAnswer()(fault, exchange.request()));
}

void RestService::EndStreams() {
  streams_.End();
  job_streams_.End();
}

void RestService::StreamProgress(std::unique_ptr<HttpExchange> exchange) {
  const absl::StatusOr<std::string> id = ChooseRequestId(exchange->request().parameter);
  std::vector<HttpField> fields = cors_.Fields(exchange->request());
  const absl::Status refusal = id.ok() ? streams_.Add(exchange, fields) : id.status();
  if (refusal.ok()) return;
  HttpResponse response = ProblemResponse(refusal, id.ok() ? *id : "");
  for (HttpField& field : fields) response.fields.push_back(std::move(field));
  exchange->Send(std::move(response));
}

void RestService::StreamJob(std::unique_ptr<HttpExchange> exchange) {
  std::vector<HttpField> fields = cors_.Fields(exchange->request());
  absl::Status refusal = host_.jobs == nullptr ? NoJobs() : absl::OkStatus();
  if (refusal.ok()) {
    const HttpRequest& request = exchange->request();
    refusal =
        job_streams_.Add(exchange, fields,
                         std::make_unique<JobFeed>(*host_.jobs, TenantOf(request),
                                                   request.parameter, host_.calls.clock.Now()));
  }
  if (refusal.ok()) return;
  HttpResponse response = ProblemResponse(refusal, "");
  for (HttpField& field : fields) response.fields.push_back(std::move(field));
  exchange->Send(std::move(response));
}

std::vector<HttpRoute> RestService::Routes() {
  std::vector<HttpRoute> routes = CallRoutes();
  Append(JobRoutes(), routes);
  Append(InfoRoutes(host_), routes);
  Append(DescriptionRoutes(cors_), routes);
  if (cors_.enabled()) Append(PreflightRoutes(routes, cors_), routes);
  if (web_) Append(PageRoutes(), routes);
  return routes;
}

}  // namespace upscaled::server
