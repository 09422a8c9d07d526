// Why a request fails, in a form for programs: an absl::Status with a reason, metadata and a retry
// delay as payloads. rpc/ turns them into ErrorInfo and RetryInfo.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace upscaled::server {

// The contract's ErrorReason, name by name and number by number.
enum class ErrorReason : uint8_t {
  kUnspecified = 0,
  kInvalidOption = 1,
  kInvalidImage = 2,
  kUnsupported = 3,
  kLimitExceeded = 4,
  kUnknownModel = 5,
  kOverloaded = 6,
  kDraining = 7,
  kCancelled = 8,
  kDeadline = 9,
  kStalled = 10,
  kDeviceFailure = 11,
  kReloadFailed = 12,
  kInternal = 13,
  kSourceRefused = 14,
  kSourceFailed = 15,
  kUnauthenticated = 16,
  kPermissionDenied = 17,
  kDeadlineInfeasible = 18,
};

// "INVALID_OPTION", ...
std::string_view ErrorReasonName(ErrorReason reason);

using ErrorMetadata = std::map<std::string, std::string>;

// `code` must not be OK.
absl::Status MakeError(absl::StatusCode code, ErrorReason reason, std::string_view message,
                       const ErrorMetadata& metadata = {});

// `status`, not OK, with the time after which the client may try again.
absl::Status WithRetryDelay(absl::Status status, absl::Duration retry_delay);

// RESOURCE_EXHAUSTED with reason kOverloaded.
absl::Status MakeOverloaded(std::string_view message, absl::Duration retry_delay,
                            const ErrorMetadata& metadata = {});

// `status` with a reason, unless it is OK or has one already: for errors of the engine. Their code
// does not say the caller's fault.
absl::Status WithReason(absl::Status status, ErrorReason reason);

// The reason carried by `status`, otherwise the reason of its code: CANCELLED is kCancelled,
// INTERNAL kInternal, ... kUnspecified for OK.
ErrorReason ReasonOf(const absl::Status& status);
ErrorMetadata MetadataOf(const absl::Status& status);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace upscaled::server
