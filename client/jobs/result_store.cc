#include "client/jobs/result_store.h"

#include <utility>

#include "absl/strings/strip.h"
#include "client/jobs/result_folder.h"
#include "client/jobs/s3_results.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {

absl::StatusOr<std::unique_ptr<ResultStore>> OpenResults(const std::string& place,
                                                         const S3Access& access) {
  if (IsS3Url(place)) {
    const std::string prefix(absl::StripSuffix(place, "/"));
    RETURN_IF_ERROR(HttpUrlOf(prefix + "/errors", access).status());
    return std::make_unique<S3Results>(prefix, access);
  }
  ASSIGN_OR_RETURN(ResultFolder folder, ResultFolder::Open(place));
  return std::make_unique<ResultFolder>(std::move(folder));
}

}  // namespace upscaled::client
