// GET /v1/results/{id}: a stored result.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/rest/file_call.h"

namespace upscaled::server {

// A name always stands for the same bytes, so caches may keep them.
class ResultCall final : public FileCall {
 public:
  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  ResultCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : FileCall(host, std::move(exchange), "GetResult") {}

 private:
  absl::Status Answer() override;
};

}  // namespace upscaled::server
