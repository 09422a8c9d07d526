// The service over HTTP: its routes, and their common parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/calls/call_environment.h"
#include "server/fetch/fetcher.h"
#include "server/handlers/handler_environment.h"
#include "server/http/http_exchange.h"
#include "server/http/http_fault.h"
#include "server/http/http_router.h"
#include "server/rest/cors.h"
#include "server/rest/event_streams.h"
#include "server/rest/progress_board.h"
#include "server/rest/progress_streams.h"
#include "server/rest/rest_host.h"

namespace upscaled::server {

struct RestOptions {
  bool web = true;  // the page and the documentation
  std::vector<std::string> cors_origins;
  FetchOptions fetch;         // of sources by URL; without a prefix: none
  AsyncJobs* jobs = nullptr;  // for who prefers respond-async; outlives the calls; null: none
  bool signed_urls = false;   // whether GET /v1/upscale takes them
  // How long caches may keep the answer to a signed URL, at most until the URL's end.
  absl::Duration signed_max_age = absl::Hours(24);
};

// Must outlive the server with its routes, and all calls.
class RestService {
 public:
  // Both must outlive it.
  RestService(const HandlerEnvironment& handlers, CallEnvironment& calls, RestOptions options);

  std::vector<HttpRoute> Routes();
  // The port's own refusals in the words of these routes: as they tell of errors.
  HttpFaultAnswer FaultAnswer() const;
  // Ends the streams of events, which last longer than any call: for a drain without calls.
  void EndStreams();

 private:
  std::vector<HttpRoute> CallRoutes();
  std::vector<HttpRoute> JobRoutes();
  // Answers with the events of the request in the exchange's parameter.
  void StreamProgress(std::unique_ptr<HttpExchange> exchange);
  // Answers with the events of the job in the exchange's parameter.
  void StreamJob(std::unique_ptr<HttpExchange> exchange);
  // Answers a GET of /v1/upscale without a signature.
  void RefuseGet(HttpExchange& exchange) const;

  const Cors cors_;
  const Fetcher fetcher_;
  const bool web_, signed_urls_;
  ProgressBoard board_;
  RestHost host_;
  ProgressStreams streams_;
  EventStreams job_streams_;
  QuestionPool questions_;  // last: its calls use what is above
};

}  // namespace upscaled::server
