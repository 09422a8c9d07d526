// Errors of calls as absl::Status, with the details of the server as payloads.
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/impl/codegen/channel_interface.h"
#include "grpcpp/support/status.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

// Where an error arose.
enum class ErrorOrigin {
  kLocal,       // Here: a file, an argument, an interruption.
  kConnection,  // On the way: nobody answered, or the connection broke.
  kServer,      // The server refused or failed.
};

// The parts of an error beyond code and message.
struct ErrorDetails {
  ErrorOrigin origin = ErrorOrigin::kLocal;
  // ErrorInfo.reason, such as "OVERLOADED"; empty when the server sent none.
  std::string reason;
  std::map<std::string, std::string> metadata;
  // RetryInfo.retry_delay.
  std::optional<absl::Duration> retry_delay;
};

// The outcome of a call over `channel`. After a deadline, the channel's state tells a slow server
// from an unreachable one. CANCELLED, and local, when it failed and `stop` was requested.
absl::Status FromGrpcStatus(const grpc::Status& status, grpc::ChannelInterface& channel,
                            const std::stop_token& stop = {});

// The server's error for one tile, as if it were the outcome of a call.
absl::Status FromTileError(const ::upscale::v1::TileError& error);

// `status` with all of `details`.
absl::Status WithDetails(absl::Status status, const ErrorDetails& details);

// `status` with a note of where it arose.
absl::Status WithOrigin(absl::Status status, ErrorOrigin origin);

// Their kept details; local for any other status.
ErrorDetails DetailsOf(const absl::Status& status);

}  // namespace upscaled::client
