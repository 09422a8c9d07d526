#include "server/fetch/host_lookups.h"

#include <atomic>
#include <new>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(20);

TEST(LookUpHostTest, AsksTheSystem) {
  const absl::StatusOr<HostAddresses> addresses = LookUpHost("localhost");
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_THAT(*addresses, Contains(AnyOf("127.0.0.1", "::1")));
  EXPECT_EQ(LookUpHost(std::string(300, 'a')).status().code(), absl::StatusCode::kNotFound);
}

TEST(HostLookupsTest, LooksUpAgainForEachWhoAsks) {
  int calls = 0;
  HostLookups lookups([&](const std::string& host) -> absl::StatusOr<HostAddresses> {
    if (host == "none.example") return absl::NotFoundError("no such name");
    return HostAddresses{"192.0.2." + std::to_string(++calls)};
  });
  Cancellation cancellation;
  EXPECT_THAT(*lookups.Find("a.example", kPatience, cancellation), ElementsAre("192.0.2.1"));
  EXPECT_THAT(*lookups.Find("a.example", kPatience, cancellation), ElementsAre("192.0.2.2"));
  EXPECT_EQ(lookups.Find("none.example", kPatience, cancellation).status(),
            absl::NotFoundError("no such name"));
}

// Clients with a question and a quick end leave one thread, however many they are.
TEST(HostLookupsTest, OneLookupOfANameHangsAtATime) {
  std::atomic<int> calls = 0;
  absl::Notification answer;
  HostLookups lookups([&](const std::string& host) {
    ++calls;
    if (host == "hangs.example") answer.WaitForNotification();
    return HostAddresses{"192.0.2.1"};
  });
  for (int i = 0; i < 50; ++i) {
    Cancellation cancellation;
    std::thread canceller([&] { cancellation.Cancel(absl::CancelledError("gone")); });
    EXPECT_EQ(lookups.Find("hangs.example", kPatience, cancellation).status(),
              absl::CancelledError("gone"));
    canceller.join();
  }
  Cancellation cancellation;
  EXPECT_EQ(lookups.Find("hangs.example", absl::Milliseconds(10), cancellation).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(lookups.Find("other.example", kPatience, cancellation).ok()) << "it waits for none";
  EXPECT_EQ(calls, 2);
  std::thread resolver([&] {
    absl::SleepFor(absl::Milliseconds(20));
    answer.Notify();
  });
  EXPECT_THAT(*lookups.Find("hangs.example", kPatience, cancellation), ElementsAre("192.0.2.1"));
  EXPECT_EQ(calls, 2) << "the one that hung answers who asks now";
  resolver.join();
}

TEST(HostLookupsTest, FailsWithoutMemory) {
  HostLookups lookups(
      [](const std::string&) -> absl::StatusOr<HostAddresses> { throw std::bad_alloc(); });
  Cancellation cancellation;
  EXPECT_EQ(lookups.Find("a.example", kPatience, cancellation).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace upscaled::server
