// POST /v1/jobs: many images, with a job for each.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/jobs/async_jobs.h"
#include "server/rest/form.h"
#include "server/rest/rest_call.h"

namespace upscaled::server {

// The body is JSON with URLs (batch_body.h) for workers to fetch, or a form with images. Options of
// a form, and of the query, are those of all its images. All jobs are queued or none.
class BatchCall final : public RestCall {
 public:
  static constexpr size_t kMaxJsonBytes = size_t{1} << 20;

  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  BatchCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : RestCall(host, std::move(exchange), "SubmitJobs") {}

 private:
  absl::Status CheckHeader() override;
  void Run() override;
  absl::Status Answer();
  // Add a source for each job, and return its request.
  absl::StatusOr<std::vector<JobRequest>> ReadUrls(AsyncJobs::Batch& batch);
  absl::StatusOr<std::vector<JobRequest>> ReadForm(AsyncJobs::Batch& batch);

  std::vector<FormField> query_;
  std::string boundary_;  // "": the body is JSON
};

}  // namespace upscaled::server
