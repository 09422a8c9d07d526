// A caller's image to upscale: the facts of its request, and the caller's ends of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "engine/image/codec.h"
#include "server/calls/call_context.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/held_source.h"
#include "server/handlers/resolve_job.h"
#include "server/models/model_chain.h"
#include "server/options/request_options.h"
#include "server/results/digest.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// A request, known step by step: its options come first, then the header of its source, then all
// bytes of the source.
struct ImageRequest {
  RequestOptions options;
  ModelChain models;
  // Bytes of the result at most. Refuses a result too large to fit before its computation, if its
  // size shows it; 0: no limit.
  int64_t max_result_bytes = 0;
  int64_t input_bytes = 0;  // of the source at most; 0: unknown
  // The source's SHA-256, as the client says. A source with another one is refused. If the input is
  // empty, the server sends the result stored for it by the caller's tenant. Callers without keys
  // have no tenant, so they get no result by it. Nothing is stored by it.
  std::optional<Digest> claimed_digest = {};
  // Names of the client's results (UpscaleImageHeader.etag). If the result is one of them, its
  // header says not_modified and nothing is written.
  std::vector<std::string> known_results = {};
  // Only the header is wanted, for its etag; claimed_digest has a value. Of the input only the
  // image's header is read.
  bool name_only = false;

  // Once the header of the source is read.
  ImageHeader source = {};
  ResolvedJob resolved = {};

  // Once all of the source is read. Equal requests have the same key; no value if the files of a
  // model change.
  Digest source_digest = {};
  std::optional<Digest> key = {};
};

// A request of these options for their models. Errors as ModelCatalog::FindChain.
absl::StatusOr<ImageRequest> StartRequest(const HandlerEnvironment& environment,
                                          RequestOptions options);

// Reserves memory only: it is not known yet whether anything has to be computed.
absl::Status ReserveMemory(const HandlerEnvironment& environment, const CallContext& context,
                           int64_t bytes);

// Reads the header of the request's source, and resolves the request by it. A header longer than
// the limit on metadata is reserved, together with the call's `buffer_bytes`. Errors carry the
// client's reason.
absl::Status ReadSourceHeader(const HandlerEnvironment& environment, const CallContext& context,
                              HeldSource& source, size_t buffer_bytes, ImageRequest& request);

// The caller's ends of a request. All referenced objects outlive the call.
struct ImageStreams {
  ByteSource& input;
  ByteSink& output;
  size_t buffer_bytes = 0;  // that input and output hold beside what the call has reserved
  // Called once, when the image was admitted and before the first byte of the result. An error
  // ends the request.
  std::function<absl::Status(const upscale::v1::UpscaleImageHeader&)> on_header;
  // May be null. Called on any thread, also on the scheduler's; must not block.
  std::function<void(int64_t done, int64_t total)> on_progress = nullptr;
};

// INVALID_ARGUMENT (kInvalidOption) if the client claims another digest for its source.
absl::Status CheckClaimedDigest(const std::optional<Digest>& claimed, const Digest& digest);

}  // namespace upscaled::server
