// The one place that turns a Status into the client's form.
#pragma once

#include <string_view>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"

namespace upscaled::server {

inline constexpr char kErrorDomain[] = "upscale.v1";

// The canonical code, the message, and google.rpc.Status with ErrorInfo (and RetryInfo where the
// status carries a retry delay) as details. `request_id` may be empty.
grpc::Status ToGrpcStatus(const absl::Status& status, std::string_view request_id);

// Adds grpc-retry-pushback-ms if `status` has a retry delay. gRPC's own retries obey it.
void AddRetryPushback(const absl::Status& status, grpc::ServerContext& context);

}  // namespace upscaled::server
