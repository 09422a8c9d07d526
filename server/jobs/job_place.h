// Places in a task: absolute paths, and URLs of files.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace upscaled::server {

// http:// or https://.
bool IsHttpUrl(absl::string_view place);
// http://, https:// or s3://.
bool IsUrl(absl::string_view place);
// s3://BUCKET/KEY.
bool IsS3Url(absl::string_view place);

// `place` without user, password and query: they may be as good as a key. Paths and places in S3
// have none of these and stay as they are.
std::string WithoutSecrets(const std::string& place);

}  // namespace upscaled::server
