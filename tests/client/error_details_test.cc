#include "client/error_details.h"

#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"

namespace upscaled::client {
namespace {

absl::Status Convert(const grpc::Status& status) {
  const auto idle = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  return FromGrpcStatus(status, *idle);
}

TEST(ErrorDetailsTest, OkStaysOk) { EXPECT_TRUE(Convert(grpc::Status::OK).ok()); }

TEST(ErrorDetailsTest, KeepsWhatTheServerSaid) {
  const absl::Status status = Convert(ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                                                  "OVERLOADED", absl::Milliseconds(1250)));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "full");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.origin, ErrorOrigin::kServer);
  EXPECT_EQ(details.reason, "OVERLOADED");
  EXPECT_EQ(details.metadata.at("limit"), "7");
  EXPECT_EQ(details.retry_delay, absl::Milliseconds(1250));
}

TEST(ErrorDetailsTest, BareErrorsOfStreamsAriseOnTheWay) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::INTERNAL,
                          grpc::StatusCode::UNKNOWN, grpc::StatusCode::CANCELLED}) {
    EXPECT_EQ(DetailsOf(Convert({code, "Stream removed"})).origin, ErrorOrigin::kConnection)
        << code;
    EXPECT_EQ(DetailsOf(Convert(ServerError(code, "", "REASON"))).origin, ErrorOrigin::kServer)
        << code;
  }
  EXPECT_EQ(DetailsOf(Convert({grpc::StatusCode::INVALID_ARGUMENT, ""})).origin,
            ErrorOrigin::kServer);
}

TEST(ErrorDetailsTest, DeadlineWithoutAConnectionArisesOnTheWay) {
  EXPECT_EQ(DetailsOf(Convert({grpc::StatusCode::DEADLINE_EXCEEDED, ""})).origin,
            ErrorOrigin::kConnection);
}

TEST(ErrorDetailsTest, WhatWasStoppedHereIsNoErrorOfTheWay) {
  const auto channel = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  std::stop_source stop;
  stop.request_stop();
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "");
  const absl::Status status = FromGrpcStatus(cancelled, *channel, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(DetailsOf(status).origin, ErrorOrigin::kLocal);
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK, *channel, stop.get_token()).ok());
}

TEST(ErrorDetailsTest, GarbageDetailsAreIgnored) {
  const ErrorDetails details =
      DetailsOf(Convert({grpc::StatusCode::INTERNAL, "broken", "\xff\xfe garbage"}));
  EXPECT_EQ(details.origin, ErrorOrigin::kServer);
  EXPECT_EQ(details.reason, "");
  EXPECT_FALSE(details.retry_delay.has_value());
}

TEST(ErrorDetailsTest, OtherErrorsAreLocal) {
  EXPECT_EQ(DetailsOf(absl::NotFoundError("file")).origin, ErrorOrigin::kLocal);
}

TEST(ErrorsTest, ALineSaysWhatAndWhyAndWhatToDo) {
  EXPECT_EQ(ErrorLine(Convert(ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue\nfull",
                                          "OVERLOADED", absl::Seconds(2)))),
            "queue full [OVERLOADED]; the server asks to wait 2 s; try again later, or with more "
            "--retries");
  EXPECT_EQ(ErrorLine(Convert({grpc::StatusCode::UNAVAILABLE, "refused"})),
            "cannot reach the server: refused; is the server running? see --server; "
            "'upscale image --local' works without");
  EXPECT_EQ(ErrorLine(Convert({grpc::StatusCode::DATA_LOSS, ""})), "DATA_LOSS");
}

TEST(ErrorsTest, ExitCodes) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), kExitOk);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), kExitBadArguments);
  EXPECT_EQ(ExitCodeFor(absl::PermissionDeniedError("")), kExitLocalError);
  EXPECT_EQ(ExitCodeFor(absl::CancelledError("")), kExitInterrupted);
  EXPECT_EQ(ExitCodeFor(Convert({grpc::StatusCode::UNAVAILABLE, ""})), kExitCannotConnect);
  EXPECT_EQ(ExitCodeFor(Convert({grpc::StatusCode::CANCELLED, ""})), kExitCannotConnect);
  EXPECT_EQ(ExitCodeFor(Convert(ServerError(grpc::StatusCode::CANCELLED, "", "CANCELLED"))),
            kExitRpcFailed);
  EXPECT_EQ(ExitCodeFor(Convert({grpc::StatusCode::INVALID_ARGUMENT, ""})), kExitRpcFailed);
}

}  // namespace
}  // namespace upscaled::client
