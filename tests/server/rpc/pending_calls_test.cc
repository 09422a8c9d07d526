#include "server/rpc/pending_calls.h"

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

  // That one has not gone yet, and is not told again.
  PendingCalls::Place fourth = unread.Enter("192.0.2.1", [](const absl::Status&) {});
  EXPECT_FALSE(second.ok());
  EXPECT_TRUE(other.ok());
  for (PendingCalls::Place* place : {&places[1], &third}) place->Release();

  PendingCalls::Place fifth = unread.Enter("192.0.2.3", [](const absl::Status&) {});
  EXPECT_TRUE(other.ok());
  PendingCalls::Place sixth = unread.Enter("192.0.2.4", [](const absl::Status&) {});
  EXPECT_THAT(std::string(other.message()), HasSubstr("3 calls,"));
}

}  // namespace
}  // namespace upscaled::server
