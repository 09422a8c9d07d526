#include "client/worker/result_store.h"

#include <utility>

#include "absl/strings/strip.h"
#include "client/worker/result_folder.h"
#include "client/worker/s3_results.h"
#include "engine/base/status_macros.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {

absl::StatusOr<std::unique_ptr<ResultStore>> OpenResults(const std::string& place,
                                                         const S3Access& access) {
  if (server::IsS3Url(place)) {
    const std::string prefix(absl::StripSuffix(place, "/"));
    RETURN_IF_ERROR(HttpUrlOf(prefix + "/errors", access).status());
    return std::make_unique<S3Results>(prefix, access);
  }
  ASSIGN_OR_RETURN(ResultFolder folder, ResultFolder::Open(place));
  return std::make_unique<ResultFolder>(std::move(folder));
}

}  // namespace upscaled::client
