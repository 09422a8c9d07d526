#include "server/base/error.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(ErrorTest, CarriesReasonAndMetadata) {
  const absl::Status status = MakeError(absl::StatusCode::kAborted, ErrorReason::kStalled,
                                        "nothing read", {{"timeout", "60s"}, {"empty", ""}});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "nothing read");
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStalled);
  EXPECT_THAT(MetadataOf(status), UnorderedElementsAre(Pair("timeout", "60s"), Pair("empty", "")));
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
}

TEST(ErrorTest, OverloadCarriesARetryDelay) {
  const absl::Status status = MakeOverloaded("full", absl::Milliseconds(2500), {{"limit", "x"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kOverloaded);
  EXPECT_EQ(RetryDelayOf(status), absl::Milliseconds(2500));
  EXPECT_THAT(MetadataOf(status), UnorderedElementsAre(Pair("limit", "x")));
}

TEST(ErrorTest, TheFirstReasonStays) {
  absl::Status status =
      WithReason(absl::InvalidArgumentError("no PNG"), ErrorReason::kInvalidImage);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidImage);
  status = WithReason(status, ErrorReason::kInvalidOption);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidImage);
  EXPECT_TRUE(WithReason(absl::OkStatus(), ErrorReason::kStalled).ok());
}

TEST(ErrorTest, StatusesWithoutAReasonGetTheirCodes) {
  EXPECT_EQ(ReasonOf(absl::OkStatus()), ErrorReason::kUnspecified);
  EXPECT_EQ(ReasonOf(absl::CancelledError("")), ErrorReason::kCancelled);
  EXPECT_EQ(ReasonOf(absl::DeadlineExceededError("")), ErrorReason::kDeadline);
  EXPECT_EQ(ReasonOf(absl::InvalidArgumentError("")), ErrorReason::kInvalidOption);
  EXPECT_EQ(ReasonOf(absl::UnimplementedError("")), ErrorReason::kUnsupported);
  EXPECT_EQ(ReasonOf(absl::InternalError("")), ErrorReason::kInternal);
  EXPECT_THAT(MetadataOf(absl::InternalError("")), IsEmpty());
}

TEST(ErrorTest, NamesAreTheContracts) {
  EXPECT_EQ(ErrorReasonName(ErrorReason::kUnspecified), "UNSPECIFIED");
  EXPECT_EQ(ErrorReasonName(ErrorReason::kLimitExceeded), "LIMIT_EXCEEDED");
  EXPECT_EQ(ErrorReasonName(ErrorReason::kDeviceFailure), "DEVICE_FAILURE");
  EXPECT_EQ(ErrorReasonName(ErrorReason::kSourceFailed), "SOURCE_FAILED");
}

}  // namespace
}  // namespace upscaled::server
