#include "server/net/handshake_crew.h"

#include <atomic>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

TEST(HandshakeCrewTest, WithoutACrewTheCallerWorks) {
  HandshakeCrew::Job job(nullptr);
  bool ran = false;
  job.Run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(HandshakeCrewTest, ServesTheNewestFirst) {
  HandshakeCrew crew(1);
  absl::Notification begun, go_on;
  HandshakeCrew::Job first(&crew);
  first.Run([&] {
    begun.Notify();
    go_on.WaitForNotification();
  });
  begun.WaitForNotification();
  std::vector<int> order;
  std::atomic<int> done = 0;
  std::vector<std::unique_ptr<HandshakeCrew::Job>> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(std::make_unique<HandshakeCrew::Job>(&crew));
    jobs.back()->Run([&, i] {
      order.push_back(i);
      ++done;
    });
  }
  jobs[1]->Withdraw();  // its client has gone
  go_on.Notify();
  test::Await([&] { return done == 3; });
  EXPECT_THAT(order, ::testing::ElementsAre(3, 2, 0));
}

TEST(HandshakeCrewTest, WithdrawWaitsForWorkThatRuns) {
  HandshakeCrew crew(2);
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> begun = false, ended = false;
    HandshakeCrew::Job job(&crew);
    job.Run([&] {
      begun = true;
      ended = true;
    });
    if (i % 2 == 0) test::Await([&] { return begun.load(); });
    job.Withdraw();
    EXPECT_EQ(begun, ended);
  }
}

TEST(HandshakeCrewTest, SeveralThreadsWorkAtATime) {
  HandshakeCrew crew(2);
  absl::Notification one, other;
  HandshakeCrew::Job first(&crew), second(&crew);
  first.Run([&] {
    one.Notify();
    other.WaitForNotification();
  });
  second.Run([&] {
    one.WaitForNotification();
    other.Notify();
  });
  other.WaitForNotification();
}

}  // namespace
}  // namespace upscaled::server
