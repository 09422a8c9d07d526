// Serves an image request from the result store, from a computation in progress, or from a new
// one that later requests may join.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/handlers/image_job.h"
#include "server/models/model_chain.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// RunImageJob with HandlerEnvironment::sharing, which is not null, for the models of the job.
absl::StatusOr<upscale::v1::UpscaleSummary> RunSharedImageJob(const HandlerEnvironment& environment,
                                                              const CallContext& context,
                                                              const ImageJob& job,
                                                              ModelChain models);

}  // namespace upscaled::server
