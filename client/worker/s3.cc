#include "client/worker/s3.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr absl::string_view kScheme = "s3://";

// The value of the first of these variables with a text.
std::string FirstOf(std::initializer_list<const char*> names, absl::string_view otherwise = "") {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return std::string(otherwise);
}

// As signatures have it: all but unreserved characters and slashes is escaped.
std::string EscapedPath(absl::string_view path) {
  std::string escaped;
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        absl::string_view("-._~/").find(c) != absl::string_view::npos) {
      escaped += c;
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace

S3Access S3Access::FromEnvironment() {
  return {.endpoint = FirstOf({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}),
          .region = FirstOf({"AWS_REGION", "AWS_DEFAULT_REGION"}, S3Access().region),
          .key_id = FirstOf({"AWS_ACCESS_KEY_ID"}),
          .secret = FirstOf({"AWS_SECRET_ACCESS_KEY"}),
          .session_token = FirstOf({"AWS_SESSION_TOKEN"})};
}

absl::Status CheckLibcurlSigns(uint32_t version) {
  constexpr uint32_t kOldest = 0x075700;
  if (version >= kOldest) return absl::OkStatus();
  const auto text = [](uint32_t number) {
    return absl::StrCat(number >> 16, ".", number >> 8 & 0xff, ".", number & 0xff);
  };
  return absl::UnimplementedError(absl::StrCat("s3:// needs libcurl ", text(kOldest),
                                               " or later, and this is ", text(version)));
}

std::string BucketOf(absl::string_view s3_url) {
  const absl::string_view place = absl::StripPrefix(s3_url, kScheme);
  return std::string(place.substr(0, place.find('/')));
}

absl::StatusOr<std::string> HttpUrlOf(const std::string& s3_url, const S3Access& access) {
  // The library of the build knows the options, the one at run time uses them.
  RETURN_IF_ERROR(CheckLibcurlSigns(
      std::min<uint32_t>(LIBCURL_VERSION_NUM, curl_version_info(CURLVERSION_NOW)->version_num)));
  const absl::string_view place = absl::StripPrefix(s3_url, kScheme);
  const size_t slash = place.find('/');
  if (slash == 0 || slash == absl::string_view::npos || slash + 1 == place.size()) {
    return absl::InvalidArgumentError(absl::StrCat(s3_url, " is none of the form s3://BUCKET/KEY"));
  }
  if (access.key_id.empty() || access.secret.empty()) {
    return absl::UnauthenticatedError(absl::StrCat(
        s3_url, " needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the worker's environment"));
  }
  const std::string endpoint = access.endpoint.empty()
                                   ? absl::StrCat("https://s3.", access.region, ".amazonaws.com")
                                   : std::string(absl::StripSuffix(access.endpoint, "/"));
  return absl::StrCat(endpoint, "/", EscapedPath(place));
}

}  // namespace upscaled::client
