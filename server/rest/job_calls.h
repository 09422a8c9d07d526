// GET /v1/jobs, and GET and DELETE /v1/jobs/{id}, for requests sent with Prefer: respond-async and
// for batches.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/rest/file_call.h"
#include "server/rest/rest_call.h"

namespace upscaled::server {

// NOT_FOUND of a server without a queue.
absl::Status NoJobs();

// Lists jobs of the caller's tenant, the latest first.
class JobListCall final : public RestCall {
 public:
  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  JobListCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : RestCall(host, std::move(exchange), "ListJobs") {}

 private:
  void Run() override;
  absl::Status Answer();
};

// GET tells of a job, DELETE cancels it.
class JobCall final : public RestCall {
 public:
  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  JobCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : RestCall(host, std::move(exchange), "GetJob") {
    if (request().method == "DELETE") record().method = "CancelJob";
  }

 private:
  void Run() override;
  absl::Status Answer();
};

// GET /v1/jobs/{id}/result.
class JobResultCall final : public FileCall {
 public:
  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  JobResultCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : FileCall(host, std::move(exchange), "GetJobResult") {}

 private:
  absl::Status Answer() override;
};

}  // namespace upscaled::server
