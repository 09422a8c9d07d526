#include "server/net/connection_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

class ConnectionTableTest : public ::testing::Test {
 protected:
  // Keeps the place.
  std::optional<Refusal> Open(const std::string& host) {
    auto place = table_.Admit(host);
    if (const Refusal* refusal = std::get_if<Refusal>(&place)) return *refusal;
    places_.push_back(std::get<ConnectionTable::Place>(std::move(place)));
    return std::nullopt;
  }

  FakeClock clock_;
  ConnectionTable table_{{.max_connections = 5,
                          .max_connections_per_address = 3,
                          .resets_per_address = {.per_second = 10, .burst = 20},
                          .refused_calls_per_address = {.per_second = 10, .burst = 30}},
                         clock_};
  std::vector<ConnectionTable::Place> places_;
};

TEST_F(ConnectionTableTest, LimitsOneAddress) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Open("a"), std::nullopt);
  EXPECT_EQ(Open("a"), Refusal::kConnectionsOfAddress);
  EXPECT_EQ(Open("b"), std::nullopt);
  places_.erase(places_.begin());
  EXPECT_EQ(Open("a"), std::nullopt);
}

TEST_F(ConnectionTableTest, LimitsAll) {
  for (const char* host : {"a", "a", "b", "b", "c"}) EXPECT_EQ(Open(host), std::nullopt);
  EXPECT_EQ(Open("d"), Refusal::kConnections);
  places_.pop_back();
  EXPECT_EQ(Open("d"), std::nullopt);
}

TEST_F(ConnectionTableTest, CountsWhatHappens) {
  Open("a");
  Open("b");
  places_.pop_back();
  table_.OnRefused(Refusal::kDescriptors);
  table_.OnEnded(Offence::kResets);
  places_.front().Take(CallFault::kReset);
  const ConnectionCounts counts = table_.counts();
  EXPECT_EQ(counts.open, 1);
  EXPECT_EQ(counts.accepted, 2);
  EXPECT_EQ(counts.refused[static_cast<size_t>(Refusal::kDescriptors)], 1);
  EXPECT_EQ(counts.ended[static_cast<size_t>(Offence::kResets)], 1);
  EXPECT_EQ(counts.faults[static_cast<size_t>(CallFault::kReset)], 1);
  EXPECT_EQ(counts.faults[static_cast<size_t>(CallFault::kRefused)], 0);
}

TEST_F(ConnectionTableTest, AMovedPlaceIsHeldOnce) {
  Open("a");
  ConnectionTable::Place other = std::move(places_.front());
  places_.clear();
  EXPECT_EQ(table_.counts().open, 1);
  other = ConnectionTable::Place();
  EXPECT_EQ(table_.counts().open, 0);
}

TEST_F(ConnectionTableTest, LimitsTheResetsOfAnAddressOverItsConnections) {
  Open("a");
  Open("a");
  Open("b");
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(places_[i % 2].Take(CallFault::kReset));
  EXPECT_FALSE(places_[0].Take(CallFault::kReset));
  EXPECT_FALSE(places_[1].Take(CallFault::kReset));
  EXPECT_TRUE(places_[2].Take(CallFault::kReset));
  places_.clear();  // a new connection finds what the last one has left
  Open("a");
  EXPECT_FALSE(places_[0].Take(CallFault::kReset));
  clock_.Advance(absl::Milliseconds(150));
  EXPECT_TRUE(places_[0].Take(CallFault::kReset));
  EXPECT_FALSE(places_[0].Take(CallFault::kReset));
}

TEST_F(ConnectionTableTest, LimitsEachFaultByItself) {
  Open("a");
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(places_[0].Take(CallFault::kReset));
  EXPECT_FALSE(places_[0].Take(CallFault::kReset));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(places_[0].Take(CallFault::kServerReset));
  EXPECT_FALSE(places_[0].Take(CallFault::kServerReset));
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(places_[0].Take(CallFault::kRefused));
  EXPECT_FALSE(places_[0].Take(CallFault::kRefused));
}

TEST_F(ConnectionTableTest, ForgetsManyAddressesButNotTheirResets) {
  Open("bad");
  for (int i = 0; i < 20; ++i) places_[0].Take(CallFault::kReset);
  places_.clear();
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(Open(std::to_string(i)), std::nullopt);
    places_.clear();
  }
  Open("bad");
  EXPECT_FALSE(places_[0].Take(CallFault::kReset));
}

TEST_F(ConnectionTableTest, NamesReasons) {
  EXPECT_EQ(RefusalName(Refusal::kDescriptors), "descriptors");
  EXPECT_EQ(OffenceName(Offence::kStalled), "stalled");
}

}  // namespace
}  // namespace upscaled::server
