#include "server/rest/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr int kTooManyRequests = 429, kUnavailable = 503;
// If a passing error names no time.
constexpr absl::Duration kDefaultRetryDelay = absl::Seconds(1);

int64_t RetrySeconds(const absl::Status& status) {
  const absl::Duration delay = RetryDelayOf(status).value_or(kDefaultRetryDelay);
  return std::max<int64_t>(absl::ToInt64Seconds(absl::Ceil(delay, absl::Seconds(1))), 1);
}

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case ErrorReason::kInvalidOption:
      return 400;
    case ErrorReason::kInvalidImage:
      return 422;
    case ErrorReason::kUnsupported:
      // 404: a part this server was started without.
      return status.code() == absl::StatusCode::kFailedPrecondition ? 404 : 415;
    case ErrorReason::kLimitExceeded:
      return 413;
    case ErrorReason::kUnknownModel:
      return 404;
    case ErrorReason::kOverloaded:
      // UNAVAILABLE: not by the callers, but by a full disk.
      return status.code() == absl::StatusCode::kUnavailable ? kUnavailable : kTooManyRequests;
    case ErrorReason::kDeadlineInfeasible:
      return kTooManyRequests;
    case ErrorReason::kUnauthenticated:
      return 401;
    case ErrorReason::kPermissionDenied:
    case ErrorReason::kSourceRefused:
      return 403;
    case ErrorReason::kSourceFailed:
      return 502;
    case ErrorReason::kCancelled:
      return 499;  // for the log's readers: the client has gone
    case ErrorReason::kDeadline:
      return 504;
    case ErrorReason::kStalled:
      return 408;
    case ErrorReason::kDraining:
    case ErrorReason::kDeviceFailure:
    case ErrorReason::kReloadFailed:
      return kUnavailable;
    default:
      if (status.code() == absl::StatusCode::kNotFound) return 404;
      return status.code() == absl::StatusCode::kUnavailable ? kUnavailable : 500;
  }
}

namespace {

std::string ProblemJson(int code, const absl::Status& status, std::string_view request_id) {
  nlohmann::ordered_json problem = {{"type", "about:blank"},
                                    {"title", HttpReason(code)},
                                    {"status", code},
                                    {"detail", std::string(status.message())},
                                    {"reason", ErrorReasonName(ReasonOf(status))},
                                    {"code", absl::StatusCodeToString(status.code())}};
  if (!request_id.empty()) problem["request_id"] = request_id;
  if (const ErrorMetadata metadata = MetadataOf(status); !metadata.empty()) {
    problem["metadata"] = metadata;
  }
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status)) {
    problem["retry_after_seconds"] = absl::ToDoubleSeconds(*delay);
  }
  // Messages repeat bytes of clients, possibly not text.
  return problem.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpResponse ProblemResponse(int code, const absl::Status& status, std::string_view request_id) {
  HttpResponse response{
      .status = code,
      .fields = {{"Content-Type", "application/problem+json"}, {"Cache-Control", "no-store"}},
      .body = ProblemJson(code, status, request_id) + "\n"};
  if (!request_id.empty()) response.fields.push_back({"X-Request-Id", std::string(request_id)});
  // No wait makes a deadline longer.
  const bool passes =
      ReasonOf(status) != ErrorReason::kDeadlineInfeasible || RetryDelayOf(status).has_value();
  if (passes && (response.status == kTooManyRequests || response.status == kUnavailable)) {
    response.fields.push_back({"Retry-After", absl::StrCat(RetrySeconds(status))});
  }
  return response;
}

}  // namespace

std::string ProblemJson(const absl::Status& status, std::string_view request_id) {
  return ProblemJson(HttpStatusOf(status), status, request_id);
}

HttpResponse ProblemResponse(const absl::Status& status, std::string_view request_id) {
  return ProblemResponse(HttpStatusOf(status), status, request_id);
}

HttpResponse ProblemResponse(const HttpFault& fault, std::string_view request_id) {
  HttpResponse response = ProblemResponse(fault.status, fault.error, request_id);
  response.fields.insert(response.fields.end(), fault.fields.begin(), fault.fields.end());
  return response;
}

}  // namespace upscaled::server
