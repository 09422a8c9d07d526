// A batch of jobs as JSON: {"scale": 2, "jobs": [{"url": "https://..."}, {"url": ..., "scale":
// 3}]}.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rest/form.h"

namespace upscaled::server {

// The most jobs of one batch.
inline constexpr int kMaxBatchJobs = 1000;

struct BatchBody {
  std::vector<FormField> shared;             // of all jobs that have no such field
  std::vector<std::vector<FormField>> jobs;  // the fields of each
};

// INVALID_ARGUMENT (kInvalidOption) for any other document, for more than kMaxBatchJobs, and for no
// job.
absl::StatusOr<BatchBody> ParseBatchBody(std::string_view text);

// InvalidForm for a wrong number of jobs.
absl::Status CheckBatchSize(size_t jobs);

}  // namespace upscaled::server
