#include "server/handlers/image_job.h"

#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/handlers/compute_image.h"
#include "server/handlers/shared_image_job.h"

namespace upscaled::server {

absl::StatusOr<upscale::v1::UpscaleSummary> RunImageJob(const HandlerEnvironment& environment,
                                                        const CallContext& context,
                                                        const ImageJob& job) {
  ASSIGN_OR_RETURN(ModelChain models, environment.catalog.FindChain(job.options.model));
  context.record.model = models.name();
  if (environment.sharing != nullptr) {
    return RunSharedImageJob(environment, context, job, std::move(models));
  }
  ASSIGN_OR_RETURN(ComputedImage computed, ComputeImage(environment, context,
                                                        {.options = job.options,
                                                         .models = std::move(models),
                                                         .input = job.input,
                                                         .output = job.output,
                                                         .buffer_bytes = job.buffer_bytes,
                                                         .on_header = job.on_header,
                                                         .on_progress = job.on_progress}));
  return std::move(computed.summary);
}

}  // namespace upscaled::server
