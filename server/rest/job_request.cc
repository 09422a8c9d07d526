#include "server/rest/job_request.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/handlers/compute_image.h"
#include "server/options/contract_values.h"
#include "server/options/request_options.h"
#include "server/rest/accept.h"

namespace upscaled::server {

absl::StatusOr<JobRequest> ToJobRequest(const RestHost& host, const UpscaleParameters& parameters,
                                        const HttpRequest& http, const std::string& source_name) {
  if (!http.Field(kPriorityField).empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                     "jobs have the priority of their worker (upscale-worker --priority)",
                     {{"field", kPriorityField}});
  }
  ASSIGN_OR_RETURN(RequestOptions options, ReadOptions(parameters));
  if (!options.format.has_value()) options.format = PreferredFormat(http.AllFields("Accept"));
  ASSIGN_OR_RETURN(const auto models, host.handlers.catalog.FindChain(options.model));
  JobRequest request{.options = parameters.options,
                     .webhook = parameters.webhook,
                     .reference = parameters.reference,
                     .shown_source = parameters.url.empty() ? source_name : parameters.url};
  request.options.set_model(models.name());
  if (options.format.has_value()) request.options.set_format(ToProto(*options.format));
  request.options.set_precision(ToProto(options.precision.value_or(models.default_precision())));
  return request;
}

absl::Status NotForJobs(std::string_view field) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat(ToAbsl(field), " is for an image that is upscaled at once"),
                   {{"field", std::string(field)}});
}

absl::Status CheckNoJobParameters(const UpscaleParameters& parameters) {
  if (parameters.webhook.empty() && parameters.reference.empty()) return absl::OkStatus();
  const bool hook = !parameters.webhook.empty();
  return MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kUnsupported,
                   hook
                       ? "webhook is for jobs, and this request is none (Prefer: respond-async, at "
                         "a server with a job-queue)"
                       : "reference is for jobs, and this request is none (Prefer: "
                         "respond-async, at a server with a job-queue)",
                   {{"field", hook ? "webhook" : "reference"}});
}

}  // namespace upscaled::server
