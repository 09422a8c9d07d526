#include "server/admission/retry_turns.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/admission/admission.h"
#include "server/base/error.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kFirst = absl::Seconds(1), kStep = absl::Milliseconds(100);

TEST(RetryTurnsTest, EachCallerGetsAMomentOfItsOwn) {
  RetryTurns turns;
  absl::Time now = absl::UnixEpoch();
  std::set<absl::Time> moments;
  for (int i = 0; i < 100; ++i, now += absl::Milliseconds(1)) {
    const absl::Duration delay = turns.Next("a", now, kFirst, kStep);
    EXPECT_GE(delay, kFirst);
    EXPECT_LE(delay, kFirst + i * kStep);
    moments.insert(now + delay);
  }
  EXPECT_EQ(moments.size(), 100u);
}

TEST(RetryTurnsTest, AddressesAreServedInTurn) {
  RetryTurns turns;
  const absl::Time now = absl::UnixEpoch();
  absl::Duration flood;
  for (int i = 0; i < 150; ++i) flood = turns.Next("flood", now, kFirst, kStep);
  EXPECT_GT(flood, absl::Seconds(10));
  EXPECT_LE(turns.Next("modest", now, kFirst, kStep), kFirst + kStep) << "before the flood's";
  std::set<absl::Duration> delays;
  for (int i = 0; i < 50; ++i) delays.insert(turns.Next(absl::StrCat(i), now, kFirst, kStep));
  EXPECT_EQ(delays.size(), 50u);
}

TEST(RetryTurnsTest, MomentsHaveALatest) {
  RetryTurns turns;
  const absl::Time now = absl::UnixEpoch();
  std::set<absl::Duration> delays;
  for (int i = 0; i < 100'000; ++i) {
    const absl::Duration delay = turns.Next("a", now, kFirst, kStep);
    ASSERT_GE(delay, kFirst);
    ASSERT_LE(delay, RetryTurns::kMaxDelay);
    delays.insert(delay);
  }
  EXPECT_GT(delays.size(), 300u) << "no herd at the end of the queue";
  for (const char* const address : {"b", "c", "d"}) {
    EXPECT_LE(turns.Next(address, now, absl::Hours(1), kStep), RetryTurns::kMaxDelay);
  }
}

TEST(RetryTurnsTest, PastMomentsAreForgotten) {
  RetryTurns turns;
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 1000; ++i) turns.Next(absl::StrCat(i), now, kFirst, absl::ZeroDuration());
  EXPECT_EQ(turns.waiting(), 1000);
  now += absl::Seconds(2);
  EXPECT_EQ(turns.Next("a", now, kFirst, kStep), kFirst);
  EXPECT_EQ(turns.waiting(), 1);
  now -= absl::Hours(1);  // the clock is set back
  EXPECT_LE(turns.Next("a", now, kFirst, kStep), RetryTurns::kMaxDelay);
}

// A server of a few slots and cores, and clients with returns at the server's moments, as ours do.
class HerdTest : public ::testing::Test {
 protected:
  struct Load {
    int clients = 32;
    int calls = 1;       // of each, one after another
    int addresses = 1;   // of the clients, in turn
    bool speed = false;  // the server knows the time that its work takes from the start
  };
  struct Result {
    int refusals = 0;
    absl::Duration longest_gap;  // in which nothing ran though more callers waited than have slots
    absl::Duration longest_wait;
  };
  static constexpr int kSlots = 4, kCores = 2;
  static constexpr double kWorkS = 0.25;  // of a core for a call
  static constexpr int64_t kCost = 1'000'000'000;

  struct Call {
    AdmissionController::CallSlot slot;
    AdmissionController::Reservation work;
    double work_s = 0;
    double left_s = 0;
  };

  Result Run(const Load& load) {
    FakeClock clock;
    Limits limits;
    limits.max_concurrent_requests = kSlots;
    limits.max_requests_per_address = kSlots;
    AdmissionController admission(limits, int64_t{1} << 30, clock);
    std::uniform_real_distribution<double> uniform(0, 1);
    using Event = std::pair<absl::Time, int>;  // a client's try
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
    std::vector<int> calls_left(load.clients, load.calls);
    std::vector<absl::Time> first_tries(load.clients, clock.Now());
    std::map<int, Call> running;
    for (int i = 0; i < load.clients; ++i) events.push({clock.Now(), i});
    std::optional<absl::Time> idle_since;
    Result result;
    while (!events.empty() || !running.empty()) {
      const double rate = running.empty() ? 1 : std::min(1.0, 1.0 * kCores / running.size());
      double step_s = std::numeric_limits<double>::infinity();
      const auto ends_first = std::ranges::min_element(
          running, {}, [](const auto& entry) { return entry.second.left_s; });
      if (ends_first != running.end()) step_s = ends_first->second.left_s / rate;
      const bool is_end =
          events.empty() || absl::Seconds(step_s) <= events.top().first - clock.Now();
      if (!is_end) step_s = absl::ToDoubleSeconds(events.top().first - clock.Now());
      clock.Advance(absl::Seconds(step_s));
      for (auto& [client, call] : running) {
        call.left_s -= step_s * rate;
        call.work.ReportProgress(static_cast<int64_t>(kCost * (1 - call.left_s / call.work_s)));
      }
      if (is_end) {
        const int client = ends_first->first;
        ends_first->second.work.ReportProgress(kCost);
        running.erase(ends_first);
        if (running.empty() && events.size() > kSlots) idle_since = clock.Now();
        if (--calls_left[client] > 0) {
          first_tries[client] = clock.Now() + absl::Milliseconds(2);
          events.push({first_tries[client], client});
        }
        continue;
      }
      const int client = events.top().second;
      events.pop();
      const Payer payer{.address = absl::StrCat("10.0.0.", client % load.addresses)};
      auto slot = admission.AdmitCall(0, payer);
      if (slot.ok()) {
        auto work = admission.Reserve(
            {.cost = kCost, .speed = load.speed ? kCost * kCores / kWorkS : 0, .payer = payer});
        EXPECT_TRUE(work.ok()) << work.status();
        const double work_s = kWorkS * (0.7 + 0.6 * uniform(random_));
        running.emplace(client, Call{*std::move(slot), *std::move(work), work_s, work_s});
        result.longest_wait = std::max(result.longest_wait, clock.Now() - first_tries[client]);
        if (idle_since.has_value()) {
          result.longest_gap = std::max(result.longest_gap, clock.Now() - *idle_since);
        }
        idle_since.reset();
        continue;
      }
      ++result.refusals;
      const absl::Duration asked = *RetryDelayOf(slot.status());
      EXPECT_LE(asked, RetryTurns::kMaxDelay);
      events.push({clock.Now() + asked * (1 + 0.1 * uniform(random_)), client});  // client/retry.h
    }
    return result;
  }

  std::mt19937 random_{std::random_device{}()};
};

TEST_F(HerdTest, ThirtyTwoClientsAtFourSlotsComeBackOneByOne) {
  constexpr int kRuns = 50;
  for (const int addresses : {1, 2, 32}) {
    SCOPED_TRACE(::testing::Message() << addresses << " addresses");
    int refusals = 0;
    absl::Duration gaps;
    for (int run = 0; run < kRuns; ++run) {
      const Result result = Run({.addresses = addresses, .speed = true});
      refusals += result.refusals;
      gaps += result.longest_gap;
      EXPECT_LT(result.longest_wait, absl::Seconds(10)) << "4 s of work";
    }
    EXPECT_LE(refusals, kRuns * 32 * 1.2);
    EXPECT_LT(gaps / kRuns, absl::Milliseconds(100)) << "the longest of a run, on average";
  }
}

TEST_F(HerdTest, ClientsThatGoOnCallingDoToo) {
  for (const int addresses : {1, 2, 32}) {
    for (const bool speed : {false, true}) {
      SCOPED_TRACE(::testing::Message() << addresses << " addresses, speed known: " << speed);
      const Result result = Run({.calls = 20, .addresses = addresses, .speed = speed});
      EXPECT_LE(result.refusals, 32 * 20 * 1.2);
      EXPECT_LT(result.longest_wait, absl::Minutes(2)) << "which a client waits at most";
      EXPECT_LT(result.longest_gap, absl::Milliseconds(500));
    }
  }
}

}  // namespace
}  // namespace upscaled::server
