#include "client/http/http_problem.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "nlohmann/json.hpp"

namespace upscaled::client {
namespace {

using nlohmann::json;

constexpr size_t kShownBytes = 200;
constexpr double kLongestRetrySeconds = 86400;

std::string TextOf(const json& problem, const char* name) {
  const auto found = problem.find(name);
  return found != problem.end() && found->is_string() ? found->get<std::string>() : "";
}

// The code for an answer other than a problem document.
absl::StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 400:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
    case 405:
      return absl::StatusCode::kUnimplemented;  // is it our service?
    case 408:
      return absl::StatusCode::kAborted;
    case 413:
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 502:
    case 503:
    case 504:
      return absl::StatusCode::kUnavailable;
    default:
      return http_status >= 500 ? absl::StatusCode::kInternal : absl::StatusCode::kUnknown;
  }
}

absl::StatusCode CodeOf(const json& problem, int http_status) {
  const std::string name = TextOf(problem, "code");
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return CodeOf(http_status);
}

std::optional<absl::Duration> RetryDelay(double seconds) {
  if (!(seconds >= 0)) return std::nullopt;
  return absl::Seconds(std::min(seconds, kLongestRetrySeconds));
}

// Seconds only: dates are for other things.
std::optional<absl::Duration> ParseRetryAfter(absl::string_view field) {
  double seconds = 0;
  return absl::SimpleAtod(field, &seconds) ? RetryDelay(seconds) : std::nullopt;
}

absl::Status FromJson(int http_status, const json& problem, absl::string_view retry_after) {
  ErrorDetails details{.origin = ErrorOrigin::kServer, .reason = TextOf(problem, "reason")};
  if (const auto metadata = problem.find("metadata");
      metadata != problem.end() && metadata->is_object()) {
    for (const auto& [name, value] : metadata->items()) {
      details.metadata[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  const auto retry = problem.find("retry_after_seconds");
  details.retry_delay = retry != problem.end() && retry->is_number()
                            ? RetryDelay(retry->get<double>())
                            : ParseRetryAfter(retry_after);
  std::string message = TextOf(problem, "detail");
  if (message.empty()) message = TextOf(problem, "title");
  return WithDetails(absl::Status(CodeOf(problem, http_status), message), details);
}

bool IsProblem(const json& document) {
  return document.is_object() && !TextOf(document, "reason").empty();
}

}  // namespace

absl::Status FromProblem(int http_status, absl::string_view text, absl::string_view retry_after) {
  const json problem = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (IsProblem(problem)) return FromJson(http_status, problem, retry_after);
  return WithOrigin(absl::InternalError("the server's error is no problem document"),
                    ErrorOrigin::kServer);
}

absl::Status FromHttpAnswer(int http_status, absl::string_view body,
                            absl::string_view retry_after) {
  const json document = json::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  if (IsProblem(document)) return FromJson(http_status, document, retry_after);
  std::string text(absl::StripAsciiWhitespace(body.substr(0, kShownBytes)));
  absl::Status status(
      CodeOf(http_status),
      absl::StrCat("the answer has the HTTP status ", http_status, text.empty() ? "" : ": ", text));
  return WithDetails(status, {.origin = absl::IsUnavailable(status) ? ErrorOrigin::kConnection
                                                                    : ErrorOrigin::kServer,
                              .retry_delay = ParseRetryAfter(retry_after)});
}

}  // namespace upscaled::client
