// One encoded image in, one out: the common part of UpscaleImage and Upscale.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/handlers/call_context.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/request_options.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct ImageJob {
  RequestOptions options;
  ByteSource& input;
  ByteSink& output;
  size_t buffer_bytes = 0;  // that input and output hold beside what the call has reserved
  // Called once, when the image was admitted and before the first byte of the result. An error
  // ends the job.
  std::function<absl::Status(const upscale::v1::UpscaleImageHeader&)> on_header;
  // May be null. Called on the scheduler's threads; must not block.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

// Runs on the calling thread until the result is written. Looks at the image's header, checks it
// against the limits and reserves its memory and pixels before anything else is done for it. Fills
// in the context's record. Errors carry the reason that the client gets.
absl::StatusOr<upscale::v1::UpscaleSummary> RunImageJob(const HandlerEnvironment& environment,
                                                        const CallContext& context,
                                                        const ImageJob& job);

}  // namespace upscaled::server
