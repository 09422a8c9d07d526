#include "server/sandbox/decode_turns.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/await.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kTurn = absl::Milliseconds(5);

// A decoder on a thread of its own. It waits for its turns, and notes them.
class Waiting {
 public:
  Waiting(DecodeTurns& turns, std::string client, double weight = 1)
      : place(turns, client, weight), thread_([this] { has_turn = place.Begin(), done = true; }) {}
  ~Waiting() { Join(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  DecodeTurns::Place place;
  std::atomic<bool> has_turn = false, done = false;

 private:
  std::thread thread_;
};

class DecodeTurnsTest : public ::testing::Test {
 protected:
  FakeClock clock_;
};

TEST_F(DecodeTurnsTest, GivesNoMoreThanThereAre) {
  DecodeTurns turns(2, clock_);
  DecodeTurns::Place first(turns, "a"), second(turns, "a");
  ASSERT_TRUE(first.Begin());
  ASSERT_TRUE(second.Begin());
  Waiting third(turns, "b");
  EXPECT_FALSE(third.done);
  clock_.Advance(kTurn);
  first.End();
  third.Join();
  EXPECT_TRUE(third.has_turn);
  EXPECT_EQ(first.time(), kTurn);
  EXPECT_EQ(second.time(), absl::ZeroDuration());  // until it ends
}

TEST_F(DecodeTurnsTest, YieldsToAClientThatHasHadLess) {
  DecodeTurns turns(1, clock_);
  DecodeTurns::Place greedy(turns, "greedy");
  ASSERT_TRUE(greedy.Begin());
  clock_.Advance(kTurn);
  EXPECT_FALSE(greedy.MustYield()) << "nobody waits";
  Waiting modest(turns, "modest");
  test::Await([&] { return turns.waiting() == 1; });
  EXPECT_TRUE(greedy.MustYield());
  greedy.End();
  modest.Join();
  EXPECT_FALSE(modest.place.MustYield()) << "nobody waits";
  Waiting again(turns, "greedy");
  test::Await([&] { return turns.waiting() == 1; });
  clock_.Advance(kTurn / 2);
  EXPECT_FALSE(modest.place.MustYield()) << "it has had less";
  clock_.Advance(kTurn);
  EXPECT_TRUE(modest.place.MustYield());
  modest.place.End();
}

// Serves decoders of these clients with one turn, each followed by another one of its client before
// its turn ends. Returns the turns of each client.
std::map<std::string, int> Serve(FakeClock& clock, const std::vector<std::string>& clients,
                                 const std::map<std::string, double>& weights, int rounds) {
  struct Decoder {
    std::string client;
    std::unique_ptr<Waiting> waiting;
  };
  DecodeTurns turns(1, clock);
  std::list<Decoder> decoders;
  const auto add = [&](const std::string& client) {
    const size_t before = turns.waiting();
    decoders.push_back({client, std::make_unique<Waiting>(turns, client, weights.at(client))});
    test::Await([&] { return turns.waiting() == before + 1; });
  };
  DecodeTurns::Place blocker(turns, "blocker");
  EXPECT_TRUE(blocker.Begin());
  for (const std::string& client : clients) add(client);
  blocker.End();
  std::map<std::string, int> served;
  for (int round = 0; round < rounds; ++round) {
    auto next = decoders.end();
    test::Await([&] {
      next =
          std::ranges::find_if(decoders, [](const Decoder& d) { return d.waiting->done.load(); });
      return next != decoders.end();
    });
    ++served[next->client];
    clock.Advance(kTurn);
    add(next->client);
    next->waiting->place.End();
    decoders.erase(next);
  }
  for (const Decoder& decoder : decoders) decoder.waiting->place.Cancel();
  return served;
}

TEST_F(DecodeTurnsTest, SharesByClientHoweverManyDecodersOneHas) {
  const auto served = Serve(clock_, {"greedy", "greedy", "greedy", "greedy", "greedy", "modest"},
                            {{"greedy", 1}, {"modest", 1}}, 40);
  EXPECT_EQ(served.at("modest"), 20);
}

TEST_F(DecodeTurnsTest, SharesByWeight) {
  const auto served = Serve(clock_, {"a", "b", "b"}, {{"a", 3}, {"b", 1}}, 40);
  EXPECT_NEAR(served.at("a"), 30, 1);
}

TEST_F(DecodeTurnsTest, ClientsThatComeBackPayForWhatTheyHadBefore) {
  DecodeTurns turns(1, clock_);
  DecodeTurns::Place steady(turns, "steady");
  ASSERT_TRUE(steady.Begin());
  steady.End();
  {
    DecodeTurns::Place greedy(turns, "greedy");
    ASSERT_TRUE(greedy.Begin());
    clock_.Advance(10 * kTurn);
  }
  ASSERT_TRUE(steady.Begin());
  Waiting again(turns, "greedy");
  test::Await([&] { return turns.waiting() == 1; });
  clock_.Advance(2 * kTurn);
  EXPECT_FALSE(steady.MustYield());
  clock_.Advance(10 * kTurn);
  EXPECT_TRUE(steady.MustYield());
  steady.End();
}

TEST_F(DecodeTurnsTest, CancelEndsAWait) {
  DecodeTurns turns(1, clock_);
  DecodeTurns::Place first(turns, "a");
  ASSERT_TRUE(first.Begin());
  Waiting second(turns, "b");
  second.place.Cancel();
  second.Join();
  EXPECT_FALSE(second.has_turn);
  EXPECT_FALSE(second.place.Begin()) << "cancelled for good";
  first.End();
  DecodeTurns::Place third(turns, "c");
  EXPECT_TRUE(third.Begin()) << "the turn was not lost";
}

}  // namespace
}  // namespace upscaled::server
