#include "server/rpc/grpc_status.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(details.message(), status.error_message());
  return details;
}

TEST(GrpcStatusTest, OkHasNoDetails) {
  const grpc::Status status = ToGrpcStatus(absl::OkStatus(), "id");
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(status.error_details().empty());
}

TEST(GrpcStatusTest, CarriesReasonMetadataAndRequestId) {
  const grpc::Status status =
      ToGrpcStatus(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                             "12 is above 10", {{"limit", "max-things"}, {"maximum", "10"}}),
                   "the-id");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "12 is above 10");
  const google::rpc::Status details = DetailsOf(status);
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "LIMIT_EXCEEDED");
  EXPECT_EQ(info.domain(), "upscale.v1");
  EXPECT_EQ(info.metadata_size(), 3);
  EXPECT_EQ(info.metadata().at("limit"), "max-things");
  EXPECT_EQ(info.metadata().at("maximum"), "10");
  EXPECT_EQ(info.metadata().at("request_id"), "the-id");
}

TEST(GrpcStatusTest, OverloadSaysWhenToComeBack) {
  const grpc::Status status =
      ToGrpcStatus(MakeOverloaded("full", absl::Milliseconds(1250)), /*request_id=*/"");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const google::rpc::Status details = DetailsOf(status);
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  ASSERT_TRUE(details.details(1).UnpackTo(&retry));
  EXPECT_EQ(info.reason(), "OVERLOADED");
  EXPECT_EQ(info.metadata_size(), 0);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 250'000'000);
}

TEST(GrpcStatusTest, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status =
        ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "x"), "");
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(DetailsOf(status).details_size(), 1);
  }
}

// Header lists default to 8 KiB in all.
TEST(GrpcStatusTest, LongMessagesAreCutBetweenCharacters) {
  std::string message = "x";
  while (message.size() < 5000) message += "\u00e4";  // two bytes each, at odd places
  const grpc::Status status = ToGrpcStatus(absl::InvalidArgumentError(message), "");
  EXPECT_LE(status.error_message().size(), 1027u);
  EXPECT_EQ(status.error_message(), message.substr(0, status.error_message().size() - 3) + "...");
  EXPECT_EQ((status.error_message().size() - 3) % 2, 1u);
  EXPECT_LT(status.error_details().size(), 2000u);
}

}  // namespace
}  // namespace upscaled::server
