// One encoded image in, one out: the common part of all calls that upscale one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/calls/call_context.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/request_options.h"
#include "server/results/digest.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct ImageJob {
  RequestOptions options;
  ByteSource& input;
  ByteSink& output;
  // Bytes of the output at most. A result that cannot fit is refused before it is computed, if its
  // size shows that; 0: no limit.
  int64_t max_result_bytes = 0;
  size_t buffer_bytes = 0;  // that input and output hold beside what the call has reserved
  int64_t input_bytes = 0;  // that the input gives at most, where that is known; 0: unknown
  // The SHA-256 that the client says its source has. A source with another one is refused. If the
  // input is empty, the result that the caller's tenant has stored for it is sent; callers without
  // keys, who have no tenant, get no result by it. Nothing is stored by it.
  std::optional<Digest> source_digest = {};
  // Names of results that the client has (UpscaleImageHeader.etag). Where the result is one of
  // them, its header says not_modified and nothing is written.
  std::vector<std::string> known_results = {};
  // Only the header is wanted, for its etag; source_digest has a value. Of the input no more is
  // read than the image's header.
  bool name_only = false;
  // Called once, when the image was admitted and before the first byte of the result. An error
  // ends the job.
  std::function<absl::Status(const upscale::v1::UpscaleImageHeader&)> on_header;
  // May be null. Called on any thread, also on the scheduler's; must not block.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

// Runs on the calling thread until the result is written. A source of moderate size is received
// whole first; then its result comes from the store or from a running computation (see
// server/results/README.md), and is computed otherwise. Looks at the image's header and checks it
// against the limits before anything else is done for it. Fills in the context's record. Errors
// carry the reason that the client gets.
absl::StatusOr<upscale::v1::UpscaleSummary> RunImageJob(const HandlerEnvironment& environment,
                                                        const CallContext& context,
                                                        const ImageJob& job);

}  // namespace upscaled::server
