// The job of a request.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/http_message.h"
#include "server/jobs/async_jobs.h"
#include "server/rest/rest_host.h"
#include "server/rest/upscale_parameters.h"

namespace upscaled::server {

// The options in words with one meaning at the worker's server, even with other defaults. The
// Accept field of `http` chooses a format if the parameters name none. `source_name`: the file name
// of a sent image. INVALID_ARGUMENT (kInvalidOption) and NOT_FOUND (kUnknownModel) as for an image
// upscaled at once; INVALID_ARGUMENT (kInvalidOption) for a priority.
absl::StatusOr<JobRequest> ToJobRequest(const RestHost& host, const UpscaleParameters& parameters,
                                        const HttpRequest& http, const std::string& source_name);

// INVALID_ARGUMENT (kInvalidOption) for a field of images upscaled at once.
absl::Status NotForJobs(std::string_view field);

// UNIMPLEMENTED (kUnsupported) for a webhook or a reference of an image upscaled at once.
absl::Status CheckNoJobParameters(const UpscaleParameters& parameters);

}  // namespace upscaled::server
