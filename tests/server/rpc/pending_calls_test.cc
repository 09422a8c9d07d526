#include "server/rpc/pending_calls.h"

#include <vector>

#include <gmock/gmock.h>

#include "server/base/error.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

TEST(PendingCallsTest, TheOldestMakesRoom) {
  PendingCalls unread(/*max_calls=*/3, /*max_per_address=*/2);
  absl::Status first, second, other;
  PendingCalls::Place places[] = {
      unread.Enter("192.0.2.2", [&](const absl::Status& status) { other = status; }),
      unread.Enter("192.0.2.1", [&](const absl::Status& status) { first = status; }),
      unread.Enter("192.0.2.1", [&](const absl::Status& status) {
        second = status;
        places[2].Release();
      })};
  EXPECT_TRUE(first.ok());

  PendingCalls::Place third = unread.Enter("192.0.2.1", [](const absl::Status&) {});
  EXPECT_EQ(first.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayOf(first).has_value());
  EXPECT_THAT(std::string(first.message()), HasSubstr("2 calls of this address"));
  EXPECT_TRUE(second.ok() && other.ok());

  // It has not gone yet, and is not told again.
  PendingCalls::Place fourth = unread.Enter("192.0.2.1", [](const absl::Status&) {});
  EXPECT_FALSE(second.ok());
  EXPECT_TRUE(other.ok());
  for (PendingCalls::Place* place : {&places[1], &third}) place->Release();

  PendingCalls::Place fifth = unread.Enter("192.0.2.3", [](const absl::Status&) {});
  EXPECT_TRUE(other.ok());
  PendingCalls::Place sixth = unread.Enter("192.0.2.4", [](const absl::Status&) {});
  EXPECT_THAT(std::string(other.message()), HasSubstr("3 calls,"));
}

TEST(PendingCallsTest, ASettledCallStaysAndOthersGo) {
  PendingCalls unread(/*max_calls=*/2, /*max_per_address=*/2);
  absl::Status slow, waiting;
  PendingCalls::Place places[] = {
      unread.Enter("192.0.2.1", [&](const absl::Status& status) { slow = status; }),
      unread.Enter("192.0.2.2", [&](const absl::Status& status) { waiting = status; })};
  EXPECT_EQ(places[0].Settle(), absl::OkStatus());

  const PendingCalls::Place third = unread.Enter("192.0.2.3", [](const absl::Status&) {});
  EXPECT_TRUE(slow.ok()) << "it is the oldest, and has settled";
  EXPECT_FALSE(waiting.ok());
}

TEST(PendingCallsTest, HalfOfThePlacesMaySettle) {
  PendingCalls unread(/*max_calls=*/6, /*max_per_address=*/4);
  std::vector<PendingCalls::Place> own, others;
  for (int i = 0; i < 3; ++i) own.push_back(unread.Enter("192.0.2.1", nullptr));
  for (int i = 0; i < 2; ++i) others.push_back(unread.Enter("192.0.2.2", nullptr));
  EXPECT_EQ(own[0].Settle(), absl::OkStatus());
  EXPECT_EQ(own[1].Settle(), absl::OkStatus());
  const absl::Status third = own[2].Settle();
  EXPECT_TRUE(absl::IsResourceExhausted(third)) << third;
  EXPECT_TRUE(RetryDelayOf(third).has_value());
  EXPECT_THAT(std::string(third.message()), HasSubstr("2 calls of this address"));
  EXPECT_EQ(others[0].Settle(), absl::OkStatus());
  EXPECT_THAT(std::string(others[1].Settle().message()), HasSubstr("3 calls,"));

  own[0].Release();
  EXPECT_EQ(others[1].Settle(), absl::OkStatus());
  others.clear();
  EXPECT_EQ(own[2].Settle(), absl::OkStatus());
}

}  // namespace
}  // namespace upscaled::server
