#include "server/handlers/image_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {

absl::StatusOr<ImageRequest> StartRequest(const HandlerEnvironment& environment,
                                          RequestOptions options) {
  ASSIGN_OR_RETURN(ModelChain models, environment.catalog.FindChain(options.model));
  return ImageRequest{.options = std::move(options), .models = std::move(models)};
}

absl::Status CheckClaimedDigest(const ImageRequest& request, const Digest& digest) {
  if (!request.claimed_digest.has_value() || *request.claimed_digest == digest) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat("the image's SHA-256 is ", ToHex(digest), ", not ",
                                ToHex(*request.claimed_digest),
                                " as the request says (Content-Digest, source_sha256)"),
                   {{"field", "source_sha256"}});
}

}  // namespace upscaled::server
