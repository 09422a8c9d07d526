#include "client/error_details.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace upscaled::client {
namespace {

constexpr absl::string_view kOriginUrl = "upscaled.client/origin";
constexpr absl::string_view kConnection = "connection";
constexpr absl::string_view kServer = "server";
constexpr absl::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kRetryInfoUrl = "type.googleapis.com/google.rpc.RetryInfo";

// The message of type T under `url` in `status`, if any.
template <typename T>
std::optional<T> Payload(const absl::Status& status, absl::string_view url) {
  const auto bytes = status.GetPayload(url);
  T message;
  if (!bytes.has_value() || !message.ParseFromString(std::string(*bytes))) return std::nullopt;
  return message;
}

ErrorOrigin OriginOf(const grpc::Status& status, grpc::ChannelInterface& channel) {
  // Our server explains its errors, so these without details are gRPC's own. A proxy with a killed
  // server breaks the stream off. gRPC calls this INTERNAL (behind nginx) or UNKNOWN (HAProxy);
  // CANCELLED was seen behind nginx, too, while servers came and went.
  const bool of_connections = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                              status.error_code() == grpc::StatusCode::INTERNAL ||
                              status.error_code() == grpc::StatusCode::UNKNOWN ||
                              status.error_code() == grpc::StatusCode::CANCELLED;
  const bool broken = of_connections && status.error_details().empty();
  const bool never_connected = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
                               channel.GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY;
  return broken || never_connected ? ErrorOrigin::kConnection : ErrorOrigin::kServer;
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status, grpc::ChannelInterface& channel,
                            const std::stop_token& stop) {
  if (status.ok()) return absl::OkStatus();
  if (stop.stop_requested()) return absl::CancelledError("cancelled");
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details()) {
      result.SetPayload(any.type_url(), absl::Cord(any.value()));
    }
  }
  return WithOrigin(std::move(result), OriginOf(status, channel));
}

absl::Status FromTileError(const ::upscale::v1::TileError& error) {
  absl::Status status(static_cast<absl::StatusCode>(error.code()), error.message());
  ErrorDetails details{.origin = ErrorOrigin::kServer,
                       .reason = std::string(absl::StripPrefix(
                           ::upscale::v1::ErrorReason_Name(error.reason()), "ERROR_REASON_"))};
  if (error.has_retry_delay()) {
    details.retry_delay = absl::Seconds(error.retry_delay().seconds()) +
                          absl::Nanoseconds(error.retry_delay().nanos());
  }
  return WithDetails(std::move(status), details);
}

absl::Status WithDetails(absl::Status status, const ErrorDetails& details) {
  if (!details.reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(details.reason);
    info.mutable_metadata()->insert(details.metadata.begin(), details.metadata.end());
    status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
  }
  if (details.retry_delay.has_value()) {
    google::rpc::RetryInfo retry;
    const int64_t seconds = absl::ToInt64Seconds(*details.retry_delay);
    retry.mutable_retry_delay()->set_seconds(seconds);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(
        absl::ToInt64Nanoseconds(*details.retry_delay - absl::Seconds(seconds))));
    status.SetPayload(kRetryInfoUrl, absl::Cord(retry.SerializeAsString()));
  }
  return WithOrigin(std::move(status), details.origin);
}

absl::Status WithOrigin(absl::Status status, ErrorOrigin origin) {
  // A local error is one without a note.
  if (origin == ErrorOrigin::kLocal) {
    status.ErasePayload(kOriginUrl);
  } else {
    status.SetPayload(kOriginUrl,
                      absl::Cord(origin == ErrorOrigin::kConnection ? kConnection : kServer));
  }
  return status;
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  if (const auto origin = status.GetPayload(kOriginUrl)) {
    details.origin = *origin == kConnection ? ErrorOrigin::kConnection : ErrorOrigin::kServer;
  }
  if (const auto info = Payload<google::rpc::ErrorInfo>(status, kErrorInfoUrl)) {
    details.reason = info->reason();
    details.metadata.insert(info->metadata().begin(), info->metadata().end());
  }
  if (const auto retry = Payload<google::rpc::RetryInfo>(status, kRetryInfoUrl)) {
    const auto& delay = retry->retry_delay();
    details.retry_delay = std::max(
        absl::ZeroDuration(), absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos()));
  }
  return details;
}

}  // namespace upscaled::client
