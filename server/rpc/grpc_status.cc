#include "server/rpc/grpc_status.h"

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/base/error.h"
#include "server/options/contract_values.h"

namespace upscaled::server {
namespace {

// Header lists default to 8 KiB; the message travels twice, percent-encoded and in the details.
constexpr size_t kMaxTextBytes = 1024;

std::string Shortened(absl::string_view message) {
  if (message.size() <= kMaxTextBytes) return std::string(message);
  size_t end = kMaxTextBytes;
  while (end > 0 && (message[end] & 0xC0) == 0x80) --end;  // not inside a UTF-8 sequence
  return std::string(message.substr(0, end)) + "...";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status, std::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());  // the numbers are the same
  const std::string message = Shortened(status.message());

  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ErrorReasonName(ReasonOf(status))));
  info.set_domain(kErrorDomain);
  for (const auto& [key, value] : MetadataOf(status)) (*info.mutable_metadata())[key] = value;
  if (!request_id.empty()) (*info.mutable_metadata())["request_id"] = std::string(request_id);
  details.add_details()->PackFrom(info);
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status)) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = ToProto(*delay);
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

void AddRetryPushback(const absl::Status& status, grpc::ServerContext& context) {
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status)) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms",
                                std::to_string(absl::ToInt64Milliseconds(*delay)));
  }
}

}  // namespace upscaled::server
