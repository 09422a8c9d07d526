#include "client/retry.h"

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_clock.h"
#include "tests/client/fake_server.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `code` as a server sends it, with RetryInfo unless `retry_delay` is negative.
absl::Status FromServer(absl::StatusCode code, absl::Duration retry_delay = -absl::Seconds(1),
                        const std::string& reason = "REASON") {
  const auto channel = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  return FromGrpcStatus(ServerError(static_cast<grpc::StatusCode>(code), "no", reason, retry_delay),
                        *channel);
}

class RetryTest : public ::testing::Test {
 protected:
  // Always fails with `error`; returns the number of tries.
  int TriesFor(const absl::Status& error, bool repeatable = true) {
    int tries = 0;
    const absl::Status status = RunWithRetries(
        policy_, clock_, deadline_, stop_.get_token(),
        [&](int number) {
          EXPECT_EQ(number, ++tries);
          return Attempt{error, repeatable};
        },
        [&](const absl::Status& heard, absl::Duration wait) {
          EXPECT_EQ(heard, error);
          waits_.push_back(wait);
        });
    EXPECT_EQ(status, error);
    return tries;
  }

  RetryPolicy policy_{.max_retries = 3,
                      .initial_backoff = absl::Milliseconds(100),
                      .max_backoff = absl::Seconds(100)};
  FakeClock clock_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::stop_source stop_;
  std::vector<absl::Duration> waits_;
};

// The wait would only bring the deadline nearer.
TEST_F(RetryTest, ADeadlineThatCannotBeMetIsTheEnd) {
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kResourceExhausted, absl::Seconds(1),
                                "DEADLINE_INFEASIBLE")),
            1);
}

TEST_F(RetryTest, OnlyWhatIsSafeIsTriedAgain) {
  for (int code = 1; code <= 16; ++code) {
    const auto status_code = static_cast<absl::StatusCode>(code);
    EXPECT_EQ(TriesFor(FromServer(status_code)),
              status_code == absl::StatusCode::kUnavailable ? 4 : 1)
        << absl::StatusCodeToString(status_code);
    const bool waits = status_code == absl::StatusCode::kUnavailable ||
                       status_code == absl::StatusCode::kResourceExhausted;
    EXPECT_EQ(TriesFor(FromServer(status_code, absl::ZeroDuration())), waits ? 4 : 1)
        << absl::StatusCodeToString(status_code) << " with RetryInfo";
  }
}

// A proxy's errors for a killed server.
TEST_F(RetryTest, BrokenStreamsAreTriedAgain) {
  const auto channel = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  for (int code = 1; code <= 16; ++code) {
    const auto grpc_code = static_cast<grpc::StatusCode>(code);
    const bool broken =
        grpc_code == grpc::StatusCode::UNAVAILABLE || grpc_code == grpc::StatusCode::INTERNAL ||
        grpc_code == grpc::StatusCode::UNKNOWN || grpc_code == grpc::StatusCode::CANCELLED;
    EXPECT_EQ(TriesFor(FromGrpcStatus({grpc_code, "RST_STREAM"}, *channel)), broken ? 4 : 1)
        << code;
  }
}

TEST_F(RetryTest, BacksOffTwiceAsLongEachTimeUpToTheLimit) {
  policy_.max_backoff = absl::Milliseconds(300);
  clock_.random = 0;  // The shortest waits: half of the backoff.
  EXPECT_EQ(TriesFor(absl::UnavailableError("")), 4);
  EXPECT_THAT(clock_.sleeps(), ElementsAre(absl::Milliseconds(50), absl::Milliseconds(100),
                                           absl::Milliseconds(150)));
  EXPECT_EQ(waits_, clock_.sleeps());
}

TEST_F(RetryTest, JitterReachesTheWholeBackoff) {
  clock_.random = 1;
  EXPECT_EQ(TriesFor(absl::UnavailableError("")), 4);
  EXPECT_THAT(clock_.sleeps(), ElementsAre(absl::Milliseconds(100), absl::Milliseconds(200),
                                           absl::Milliseconds(400)));
}

TEST_F(RetryTest, NeverComesBackBeforeTheServerAsked) {
  policy_.max_total_wait = absl::Seconds(10);
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kResourceExhausted, absl::Seconds(7))), 2);
  EXPECT_THAT(clock_.sleeps(), ElementsAre(absl::Seconds(7)));
}

TEST_F(RetryTest, JitterIsInProportionToWhatTheServerAsked) {
  clock_.random = 1;
  policy_.max_total_wait = absl::Seconds(12);
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kResourceExhausted, absl::Seconds(10))), 2);
  EXPECT_THAT(clock_.sleeps(), ElementsAre(absl::Seconds(11)));
}

// A full server costs time: with five tries 4 of 32 callers of 4 slots failed.
TEST_F(RetryTest, ARefusalWithAMomentIsNoTry) {
  policy_.max_total_wait = absl::Minutes(1);
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kResourceExhausted, absl::Seconds(1))), 61);
  int tries = 0;
  const absl::Status refusal = FromServer(absl::StatusCode::kUnavailable, absl::Seconds(1));
  const absl::Status mixed = RunWithRetries(
      policy_, clock_, deadline_, {},
      [&](int) { return Attempt{++tries % 2 == 0 ? refusal : absl::UnavailableError("")}; },
      IgnoreWait);
  EXPECT_EQ(tries, 7) << "the first, and three tries that broke, each after a refusal";
}

// A server without a wait worth the name is not asked all the time.
TEST_F(RetryTest, AShortMomentIsNoHurry) {
  policy_.max_total_wait = absl::Seconds(1);
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kResourceExhausted, absl::Nanoseconds(1))), 11);
}

// Every reason of the contract is either final or tried again, with any code.
TEST_F(RetryTest, EveryReasonHasAClass) {
  const std::set<std::string> again = {"OVERLOADED", "DRAINING", "DEVICE_FAILURE", "SOURCE_FAILED"};
  const std::map<std::string, absl::StatusCode> codes = {
      {"INVALID_OPTION", absl::StatusCode::kInvalidArgument},
      {"INVALID_IMAGE", absl::StatusCode::kInvalidArgument},
      {"UNSUPPORTED", absl::StatusCode::kUnimplemented},
      {"LIMIT_EXCEEDED", absl::StatusCode::kInvalidArgument},
      {"UNKNOWN_MODEL", absl::StatusCode::kNotFound},
      {"OVERLOADED", absl::StatusCode::kResourceExhausted},
      {"DRAINING", absl::StatusCode::kUnavailable},
      {"CANCELLED", absl::StatusCode::kCancelled},
      {"DEADLINE", absl::StatusCode::kDeadlineExceeded},
      {"STALLED", absl::StatusCode::kAborted},
      {"DEVICE_FAILURE", absl::StatusCode::kUnavailable},
      {"RELOAD_FAILED", absl::StatusCode::kFailedPrecondition},
      {"INTERNAL", absl::StatusCode::kInternal},
      {"SOURCE_REFUSED", absl::StatusCode::kPermissionDenied},
      {"SOURCE_FAILED", absl::StatusCode::kUnavailable},
      {"UNAUTHENTICATED", absl::StatusCode::kUnauthenticated},
      {"PERMISSION_DENIED", absl::StatusCode::kPermissionDenied},
      {"DEADLINE_INFEASIBLE", absl::StatusCode::kResourceExhausted}};
  const auto* const reasons = v1::ErrorReason_descriptor();
  for (int i = 1; i < reasons->value_count(); ++i) {  // 0 is never sent
    const std::string name = reasons->value(i)->name().substr(sizeof "ERROR_REASON_" - 1);
    ASSERT_TRUE(codes.contains(name)) << name << " needs a class";
    EXPECT_EQ(IsRetryable(FromServer(codes.at(name), absl::Seconds(1), name)), again.contains(name))
        << name;
  }
}

TEST_F(RetryTest, StopsWhenTheWaitsAddUp) {
  policy_.max_retries = 100;
  policy_.max_total_wait = absl::Seconds(20);
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kUnavailable, absl::Seconds(6))), 4);
}

TEST_F(RetryTest, DoesNotWaitBeyondTheDeadline) {
  deadline_ = clock_.Now() + absl::Seconds(10);
  policy_.max_retries = 100;
  EXPECT_EQ(TriesFor(FromServer(absl::StatusCode::kUnavailable, absl::Seconds(4))), 3);
}

TEST_F(RetryTest, NothingThatCannotBeRepeated) {
  EXPECT_EQ(TriesFor(absl::UnavailableError(""), /*repeatable=*/false), 1);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(RetryTest, NoRetriesWhenNoneAreWanted) {
  policy_.max_retries = 0;
  EXPECT_EQ(TriesFor(absl::UnavailableError("")), 1);
}

TEST_F(RetryTest, SuccessEndsIt) {
  int tries = 0;
  EXPECT_TRUE(
      RunWithRetries(
          policy_, clock_, deadline_, {},
          [&](int) { return Attempt{++tries < 3 ? absl::UnavailableError("") : absl::OkStatus()}; },
          [](const absl::Status&, absl::Duration) {})
          .ok());
  EXPECT_EQ(tries, 3);
}

TEST_F(RetryTest, StopDuringTheWaitIsCancelled) {
  int tries = 0;
  const absl::Status status = RunWithRetries(
      policy_, clock_, deadline_, stop_.get_token(),
      [&](int) {
        ++tries;
        return Attempt{absl::UnavailableError("")};
      },
      [&](const absl::Status&, absl::Duration) { stop_.request_stop(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(tries, 1);
}

TEST(RealRetryClockTest, StopEndsTheSleep) {
  std::stop_source stop;
  std::thread sleeper([&] { RetryClock::Real().Sleep(absl::Hours(1), stop.get_token()); });
  stop.request_stop();
  sleeper.join();  // Hangs when it does not.
}

TEST(RealRetryClockTest, RandomIsAFraction) {
  for (int i = 0; i < 1000; ++i) {
    const double value = RetryClock::Real().Random();
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

}  // namespace
}  // namespace upscaled::client
