// GET /v1/results/{id}: a result that is stored.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/rest/rest_call.h"

namespace upscaled::server {

// Heeds If-None-Match, Range and If-Range; a name stands for its bytes for ever, and so may caches.
class ResultCall final : public RestCall {
 public:
  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  ResultCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : RestCall(host, std::move(exchange), "GetResult") {}

 private:
  void Run() override;
  // Leaves the answer's end to be sent.
  absl::Status Answer();
};

}  // namespace upscaled::server
