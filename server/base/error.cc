#include "server/base/error.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace upscaled::server {
namespace {

// Payloads of our own statuses: one for the reason, one for the delay, one per metadata entry.
constexpr char kReasonUrl[] = "upscaled/reason";
constexpr char kRetryDelayMsUrl[] = "upscaled/retry_delay_ms";
constexpr absl::string_view kMetadataPrefix = "upscaled/metadata/";

// By the enum's number.
constexpr auto kReasonNames = std::to_array<std::string_view>(
    {"UNSPECIFIED", "INVALID_OPTION", "INVALID_IMAGE", "UNSUPPORTED", "LIMIT_EXCEEDED",
     "UNKNOWN_MODEL", "OVERLOADED", "DRAINING", "CANCELLED", "DEADLINE", "STALLED",
     "DEVICE_FAILURE", "RELOAD_FAILED", "INTERNAL", "SOURCE_REFUSED", "SOURCE_FAILED",
     "UNAUTHENTICATED", "PERMISSION_DENIED", "DEADLINE_INFEASIBLE"});

std::optional<std::string> Payload(const absl::Status& status, absl::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

void SetReason(absl::Status& status, ErrorReason reason) {
  status.SetPayload(kReasonUrl, absl::Cord(absl::StrCat(static_cast<int>(reason))));
}

ErrorReason ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ErrorReason::kInvalidOption;
    case absl::StatusCode::kUnimplemented:
      return ErrorReason::kUnsupported;
    case absl::StatusCode::kNotFound:
      return ErrorReason::kUnknownModel;
    case absl::StatusCode::kResourceExhausted:
      return ErrorReason::kOverloaded;
    case absl::StatusCode::kUnavailable:
      return ErrorReason::kDraining;
    case absl::StatusCode::kCancelled:
      return ErrorReason::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return ErrorReason::kDeadline;
    case absl::StatusCode::kAborted:
      return ErrorReason::kStalled;
    case absl::StatusCode::kOk:
      return ErrorReason::kUnspecified;
    default:
      return ErrorReason::kInternal;
  }
}

}  // namespace

std::string_view ErrorReasonName(ErrorReason reason) {
  return kReasonNames[static_cast<size_t>(reason)];
}

absl::Status MakeError(absl::StatusCode code, ErrorReason reason, std::string_view message,
                       const ErrorMetadata& metadata) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  SetReason(status, reason);
  for (const auto& [key, value] : metadata)
    status.SetPayload(absl::StrCat(kMetadataPrefix, key), absl::Cord(value));
  return status;
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration retry_delay) {
  status.SetPayload(kRetryDelayMsUrl,
                    absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(retry_delay))));
  return status;
}

absl::Status MakeOverloaded(std::string_view message, absl::Duration retry_delay,
                            const ErrorMetadata& metadata) {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kOverloaded, message, metadata),
      retry_delay);
}

absl::Status WithReason(absl::Status status, ErrorReason reason) {
  if (!status.ok() && !status.GetPayload(kReasonUrl).has_value()) SetReason(status, reason);
  return status;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const std::optional<std::string> payload = Payload(status, kReasonUrl);
  size_t number = 0;
  if (payload.has_value() && absl::SimpleAtoi(*payload, &number) && number < kReasonNames.size())
    return static_cast<ErrorReason>(number);
  return ReasonOfCode(status.code());
}

ErrorMetadata MetadataOf(const absl::Status& status) {
  ErrorMetadata metadata;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (absl::StartsWith(url, kMetadataPrefix))
      metadata[std::string(url.substr(kMetadataPrefix.size()))] = std::string(payload);
  });
  return metadata;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const std::optional<std::string> payload = Payload(status, kRetryDelayMsUrl);
  int64_t ms = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(*payload, &ms)) return std::nullopt;
  return absl::Milliseconds(ms);
}

}  // namespace upscaled::server
