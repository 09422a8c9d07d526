// Places in S3, Amazon's or another's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace upscaled::client {

// The keys of the caller, and the place it asks.
struct S3Access {
  std::string endpoint;  // http(s)://HOST[:PORT]; "": Amazon's of the region
  std::string region = "us-east-1";
  std::string key_id, secret;
  std::string session_token;  // of temporary keys; "": these are none

  // The access by AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION,
  // AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as for Amazon's own tools.
  static S3Access FromEnvironment();
};

// BUCKET of such a place.
std::string BucketOf(absl::string_view s3_url);

// Whether a libcurl of this version, 0xMMmmpp, signs as S3 wants it: from 7.87 on, with the field
// x-amz-content-sha256. UNIMPLEMENTED, with both versions, for an older one.
absl::Status CheckLibcurlSigns(uint32_t version);

// The http(s) URL of s3://BUCKET/KEY, the bucket in its path, where every implementation has it.
// INVALID_ARGUMENT if bucket or key are missing, UNAUTHENTICATED without keys to sign with,
// UNIMPLEMENTED if libcurl cannot sign.
absl::StatusOr<std::string> HttpUrlOf(const std::string& s3_url, const S3Access& access);

}  // namespace upscaled::client
