// All needs of HTTP's calls, over the cpu and the bundled models.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/calls/call_environment.h"
#include "server/rest/rest_service.h"
#include "server/rest/usage_route.h"
#include "tests/server/handlers/engine_environment.h"
#include "tests/server/rest/fake_exchange.h"

namespace upscaled::server {

// Expects, when it goes, no rest of any call.
class RestEnvironment {
 public:
  explicit RestEnvironment(const Limits& limits = {}, RestOptions options = {},
                           absl::Duration start_timeout = absl::Minutes(1))
      : engine_(limits),
        start_timeout_(start_timeout),
        service_(handlers(), calls_, std::move(options)),
        routes_(service_.Routes()) {}
  ~RestEnvironment() {
    EXPECT_TRUE(admission().AwaitIdle(absl::Seconds(60)));
    registry_.AwaitEmpty();
  }

  // Sends a request to the route of this method and path.
  std::shared_ptr<FakeClient> Call(const std::string& method, HttpRequest request) {
    auto client = std::make_shared<FakeClient>();
    request.method = method;
    request.peer = "10.0.0.1";
    for (const HttpRoute& route : routes_) {
      const bool head = method == "HEAD" && route.method == "GET";
      if (route.path != request.path || (route.method != method && !head)) continue;
      route.stream(std::make_unique<FakeExchange>(std::move(request), client));
      return client;
    }
    ADD_FAILURE() << "no route " << method << " " << request.path;
    return client;
  }
  // POST /v1/upscale with a body that has arrived.
  RestService& service() { return service_; }
  std::shared_ptr<FakeClient> Post(const std::string& query, const std::string& body,
                                   std::vector<HttpField> fields = {}) {
    auto client = Call("POST", {.path = "/v1/upscale",
                                .query = query,
                                .fields = std::move(fields),
                                .content_length = body.size()});
    client->Send(body);
    client->AwaitEnd();
    return client;
  }

  HandlerEnvironment& handlers() { return engine_.handlers(); }
  AdmissionController& admission() { return engine_.admission(); }
  CallRegistry& registry() { return registry_; }
  const std::vector<HttpRoute>& routes() const { return routes_; }
  HttpRoute usage_route() { return UsageRoute(handlers(), calls_); }
  std::vector<RequestRecord> records() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return records_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<RequestRecord> records_ ABSL_GUARDED_BY(mutex_);

  EngineEnvironment engine_;
  const absl::Duration start_timeout_;
  ThreadPool workers_{8, absl::Seconds(1)};
  CallRegistry registry_;
  Timer timer_;
  Watchdog watchdog_{timer_};
  CallEnvironment calls_{.admission = engine_.admission(),
                         .workers = workers_,
                         .timer = timer_,
                         .watchdog = watchdog_,
                         .registry = registry_,
                         .clock = Clock::Real(),
                         .on_finished =
                             [this](const RequestRecord& record) {
                               absl::MutexLock lock(&mutex_);
                               records_.push_back(record);
                             },
                         .start_timeout = start_timeout_,
                         .stall_timeout = absl::Seconds(60)};
  RestService service_;
  const std::vector<HttpRoute> routes_;
};

}  // namespace upscaled::server
