#include "server/handlers/image_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/handlers/engine_limits.h"

namespace upscaled::server {

absl::StatusOr<ImageRequest> StartRequest(const HandlerEnvironment& environment,
                                          RequestOptions options) {
  ASSIGN_OR_RETURN(ModelChain models, environment.catalog.FindChain(options.model));
  return ImageRequest{.options = std::move(options), .models = std::move(models)};
}

absl::Status ReserveMemory(const HandlerEnvironment& environment, const CallContext& context,
                           int64_t bytes) {
  const ResourceRequest resources{.memory_bytes = bytes, .payer = context.payer};
  if (context.reservation.holds()) return context.reservation.Change(resources);
  ASSIGN_OR_RETURN(context.reservation, environment.admission.Reserve(resources));
  return absl::OkStatus();
}

absl::Status ReadSourceHeader(const HandlerEnvironment& environment, const CallContext& context,
                              HeldSource& source, size_t buffer_bytes, ImageRequest& request) {
  absl::StatusOr<ImageHeader> header =
      source.ReadHeader(ToDecodeLimits(environment, request.options), [&](int64_t bytes) {
        return ReserveMemory(environment, context, static_cast<int64_t>(buffer_bytes) + bytes);
      });
  if (!header.ok()) return ExplainEngineError(header.status());
  ASSIGN_OR_RETURN(request.resolved,
                   ResolveJob(environment, request.options, request.models, *header));
  request.source = *std::move(header);
  return absl::OkStatus();
}

absl::Status CheckClaimedDigest(const std::optional<Digest>& claimed, const Digest& digest) {
  if (!claimed.has_value() || *claimed == digest) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat("the image's SHA-256 is ", ToHex(digest), ", not ", ToHex(*claimed),
                                " as the request says (Content-Digest, source_sha256)"),
                   {{"field", "source_sha256"}});
}

}  // namespace upscaled::server
