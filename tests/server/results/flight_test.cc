#include "server/results/flight.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "server/results/in_flight.h"

namespace upscaled::server {
namespace {

constexpr size_t kBlock = Flight::kBlockBytes;

std::string BlockOf(int number, size_t bytes = kBlock) {
  return std::string(bytes, static_cast<char>('a' + number % 26));
}

upscale::v1::UpscaleImageHeader NamedHeader() {
  upscale::v1::UpscaleImageHeader header;
  header.set_etag("header");
  return header;
}

upscale::v1::UpscaleSummary NamedSummary() {
  upscale::v1::UpscaleSummary summary;
  summary.set_etag("summary");
  return summary;
}

struct Taken {
  std::string header, summary;  // their names
  std::string bytes;
  absl::Status status;
  bool left_behind = false;
};

// Takes all news, until the end.
Taken TakeAll(Flight::Waiter& waiter) {
  Taken taken;
  while (true) {
    absl::StatusOr<Flight::News> news = waiter.Await();
    if (!news.ok()) {
      taken.status = news.status();
      return taken;
    }
    if (news->header.has_value()) taken.header = news->header->etag();
    taken.bytes += news->bytes;
    if (news->left_behind) {
      taken.left_behind = true;
      return taken;
    }
    if (news->end.has_value()) {
      taken.status = news->end->status();
      if (taken.status.ok()) taken.summary = (*news->end)->etag();
      return taken;
    }
  }
}

class FlightTest : public ::testing::Test {
 protected:
  InFlight::Place Join(const Digest& key, Cancellation& cancellation, int64_t position = 0) {
    return in_flight_.JoinOrStart(key, cancellation, source_, Payer{}, position);
  }

  const Digest key_ = DigestOf({});
  const Flight::Source source_ = std::make_shared<const std::vector<uint8_t>>(3);
  InFlight in_flight_;
  Cancellation first_, second_;
};

TEST_F(FlightTest, AllWhoWaitAreItsPayers) {
  const auto addresses = [&](const Flight& flight) {
    std::vector<std::string> names;
    for (const Payer& payer : flight.payers()->list()) names.push_back(payer.address);
    return names;
  };
  InFlight::Place a = in_flight_.JoinOrStart(key_, first_, source_, {.address = "a"});
  const std::shared_ptr<Flight> flight = a.flight;
  int changes = 0;
  flight->payers()->Listen([&changes] { ++changes; });
  InFlight::Place b = in_flight_.JoinOrStart(key_, second_, source_, {.address = "b"});
  EXPECT_THAT(addresses(*flight), ::testing::ElementsAre("a", "b"));
  a.waiter->Leave();
  EXPECT_THAT(addresses(*flight), ::testing::ElementsAre("b"));
  b.waiter = nullptr;
  EXPECT_THAT(addresses(*flight), ::testing::IsEmpty());
  EXPECT_EQ(changes, 3);
}

TEST_F(FlightTest, EqualKeysShareAFlight) {
  InFlight::Place a = Join(key_, first_);
  InFlight::Place b = Join(key_, second_);
  EXPECT_TRUE(a.started);
  EXPECT_FALSE(b.started);
  EXPECT_EQ(a.flight, b.flight);
  EXPECT_EQ(a.flight->source(), source_);
  Digest other = key_;
  other[0] ^= 1;
  EXPECT_TRUE(Join(other, second_).started);
}

TEST_F(FlightTest, AllGetAllOfIt) {
  InFlight::Place first = Join(key_, first_);
  std::thread computation([&] {
    first.flight->Announce(NamedHeader());
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(first.flight->Append(BlockOf(i)).ok());
    EXPECT_TRUE(first.flight->Append(BlockOf(40, 7)).ok());
    in_flight_.Remove(key_, *first.flight);
    first.flight->Finish(NamedSummary());
  });
  const Taken taken = TakeAll(*first.waiter);
  computation.join();
  EXPECT_EQ(taken.header, "header");
  EXPECT_EQ(taken.summary, "summary");
  ASSERT_EQ(taken.bytes.size(), 40 * kBlock + 7);
  for (int i = 0; i <= 40; ++i) EXPECT_EQ(taken.bytes[i * kBlock], BlockOf(i)[0]);
  EXPECT_TRUE(Join(key_, second_).started);
}

TEST_F(FlightTest, WhoComesLaterGetsWhatIsKept) {
  InFlight::Place first = Join(key_, first_);
  first.flight->Announce(NamedHeader());
  ASSERT_TRUE(first.flight->Append(BlockOf(0)).ok());
  InFlight::Place second = Join(key_, second_);
  ASSERT_TRUE(first.flight->Append(BlockOf(1, 5)).ok());
  first.flight->Finish(NamedSummary());
  const Taken taken = TakeAll(*second.waiter);
  EXPECT_EQ(taken.header, "header");
  EXPECT_EQ(taken.bytes, BlockOf(0) + BlockOf(1, 5));
  EXPECT_EQ(taken.summary, "summary");
}

TEST_F(FlightTest, RunsAheadOfTheFastestByOneMegabyte) {
  InFlight::Place first = Join(key_, first_);
  InFlight::Place slow = Join(key_, second_);
  constexpr int kAhead = static_cast<int>(Flight::kAheadBytes / kBlock);
  for (int i = 0; i < kAhead; ++i) ASSERT_TRUE(first.flight->Append(BlockOf(i)).ok());
  std::atomic<bool> through = false;
  std::thread computation([&] {
    EXPECT_TRUE(first.flight->Append(BlockOf(kAhead)).ok());
    through = true;
  });
  ASSERT_TRUE(first.waiter->Await().ok());  // is told of the first block
  EXPECT_FALSE(through);
  ASSERT_TRUE(first.waiter->Await().ok());  // and has delivered it
  computation.join();
}

// Fills the flight beyond its first blocks.
void FillBeyondKept(Flight& flight, Flight::Waiter& fast, int& blocks) {
  const int count = static_cast<int>(Flight::kKeptBytes / kBlock) + 3;
  for (; blocks < count; ++blocks) {
    ASSERT_TRUE(flight.Append(BlockOf(blocks)).ok());
    ASSERT_TRUE(fast.Await().ok());
  }
}

TEST_F(FlightTest, TheSlowAreLeftBehindAndGoOnAlone) {
  InFlight::Place fast = Join(key_, first_);
  InFlight::Place slow = Join(key_, second_);
  int blocks = 0;
  ASSERT_TRUE(fast.flight->Append(BlockOf(blocks++)).ok());
  ASSERT_TRUE(slow.waiter->Await().ok());
  FillBeyondKept(*fast.flight, *fast.waiter, blocks);
  const Taken rest = TakeAll(*slow.waiter);
  EXPECT_TRUE(rest.left_behind);
  InFlight::Place alone = Join(key_, second_, kBlock + 3);
  std::thread computation([&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(alone.flight->Append(BlockOf(i)).ok());
    alone.flight->Finish(NamedSummary());
  });
  EXPECT_EQ(TakeAll(*alone.waiter).bytes, BlockOf(1).substr(3) + BlockOf(2));
  computation.join();
}

TEST_F(FlightTest, NobodyIsLeftBehindWhereAFileHasTheBytes) {
  InFlight::Place fast = Join(key_, first_);
  fast.flight->SetReadBack([](int64_t offset, size_t bytes) -> absl::StatusOr<std::string> {
    return BlockOf(static_cast<int>(offset / static_cast<int64_t>(kBlock)), bytes);
  });
  int blocks = 0;
  FillBeyondKept(*fast.flight, *fast.waiter, blocks);
  InFlight::Place late = Join(key_, second_);
  ASSERT_FALSE(late.started);
  fast.flight->Finish(NamedSummary());
  const Taken taken = TakeAll(*late.waiter);
  EXPECT_FALSE(taken.left_behind);
  EXPECT_EQ(taken.bytes.size(), blocks * kBlock);
  EXPECT_EQ(taken.bytes[0], 'a');
}

TEST_F(FlightTest, WhomAFileFailsGoesOnAlone) {
  InFlight::Place fast = Join(key_, first_);
  fast.flight->SetReadBack([](int64_t, size_t) -> absl::StatusOr<std::string> {
    return absl::DataLossError("given up");
  });
  int blocks = 0;
  FillBeyondKept(*fast.flight, *fast.waiter, blocks);
  InFlight::Place late = Join(key_, second_);
  ASSERT_FALSE(late.started);
  EXPECT_TRUE(TakeAll(*late.waiter).left_behind);
  EXPECT_TRUE(Join(key_, second_).started);  // not the same flight again
}

TEST_F(FlightTest, HoldsForThoseWhoWait) {
  InFlight::Place first = Join(key_, first_);
  InFlight::Place second = Join(key_, second_);
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = held;
  first.flight->HoldForWaiters(std::move(held));
  first.flight->Finish(NamedSummary());
  first.waiter.reset();
  EXPECT_FALSE(alive.expired());
  second.waiter.reset();
  EXPECT_TRUE(alive.expired());
  first.flight->HoldForWaiters(held = std::make_shared<int>(0));  // nobody is there any more
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(FlightTest, OnlyTheLastWhoLeavesEndsIt) {
  InFlight::Place first = Join(key_, first_);
  InFlight::Place second = Join(key_, second_);
  const std::shared_ptr<Flight> flight = first.flight;
  first_.Cancel(absl::CancelledError("gone"));
  EXPECT_EQ(first.waiter->Await().status(), absl::CancelledError("gone"));
  first.waiter.reset();
  EXPECT_FALSE(flight->cancellation().IsCancelled());
  ASSERT_TRUE(flight->Append(BlockOf(0)).ok());
  EXPECT_EQ(second.waiter->Await()->bytes, BlockOf(0));
  second.waiter.reset();
  EXPECT_TRUE(flight->cancellation().IsCancelled());
  EXPECT_TRUE(absl::IsCancelled(flight->Append(BlockOf(1))));
  EXPECT_TRUE(Join(key_, second_).started);
}

TEST_F(FlightTest, TheLastWhoLeavesEndsAWaitForRoom) {
  InFlight::Place first = Join(key_, first_);
  std::thread computation([flight = first.flight] {
    while (flight->Append(BlockOf(0)).ok()) {
    }
  });
  first.waiter.reset();
  computation.join();
}

TEST_F(FlightTest, ACancellationEndsTheWait) {
  InFlight::Place first = Join(key_, first_);
  std::thread canceller([&] { first_.Cancel(absl::DeadlineExceededError("late")); });
  EXPECT_EQ(TakeAll(*first.waiter).status, absl::DeadlineExceededError("late"));
  canceller.join();
}

TEST_F(FlightTest, TellsProgressThatGrows) {
  InFlight::Place first = Join(key_, first_);
  first.flight->ReportProgress(2, 10);
  first.flight->ReportProgress(1, 10);
  EXPECT_EQ(first.waiter->Await()->progress, (Flight::Progress{2, 10}));
  first.flight->Finish(absl::InternalError("broken"));
  EXPECT_EQ(TakeAll(*first.waiter).status, absl::InternalError("broken"));
}

std::shared_ptr<const RequestRecord> RecordOf(int64_t cost) {
  return std::make_shared<const RequestRecord>(RequestRecord{.cost = cost});
}

TEST_F(FlightTest, WhoHasWaitedLongestPaysUntilItLeaves) {
  Cancellation third;
  InFlight::Place a = Join(key_, first_), b = Join(key_, second_), c = Join(key_, third);
  CostMeter& meter = *a.flight->meter();
  meter += 10;
  const Flight::Bill began = a.waiter->Leave();
  EXPECT_EQ(began.cost, 10);
  EXPECT_EQ(began.record, nullptr) << "it is not over";
  meter += 15;
  const auto record = RecordOf(40);
  a.flight->Finish(NamedSummary(), record);
  EXPECT_EQ(c.waiter->Leave().cost, 0);
  const Flight::Bill rest = b.waiter->Leave();
  EXPECT_EQ(rest.cost, 30);
  EXPECT_EQ(rest.record, record);
}

TEST_F(FlightTest, WhatIsPaidIsPaidOnce) {
  InFlight::Place a = Join(key_, first_), b = Join(key_, second_);
  a.flight->Finish(absl::InternalError("broken"), RecordOf(40));
  EXPECT_EQ(a.waiter->Leave().cost, 40);
  EXPECT_EQ(a.waiter->Leave().cost, 0);
  const Flight::Bill second = b.waiter->Leave();
  EXPECT_EQ(second.cost, 0);
  EXPECT_EQ(second.record, nullptr);
}

TEST_F(FlightTest, TheLastToLeavePaysForWhatBeganUntilTheComputationStopped) {
  InFlight::Place place = Join(key_, first_);
  const auto began = place.flight->cancellation().OnCancel([&] { *place.flight->meter() += 12; });
  EXPECT_EQ(place.waiter->Leave().cost, 12);
}

TEST_F(FlightTest, AThousandShareOne) {
  constexpr int kWaiters = 1000;
  std::vector<Cancellation> cancellations(kWaiters);
  std::vector<InFlight::Place> places;
  for (Cancellation& cancellation : cancellations) {
    places.push_back(Join(key_, cancellation));
    EXPECT_EQ(places.back().started, places.size() == 1);
  }
  std::vector<std::thread> threads;
  std::atomic<int> complete = 0;
  for (InFlight::Place& place : places) {
    threads.emplace_back([&] { complete += TakeAll(*place.waiter).bytes == BlockOf(0) + "z"; });
  }
  places[0].flight->Announce(NamedHeader());
  EXPECT_TRUE(places[0].flight->Append(BlockOf(0)).ok());
  EXPECT_TRUE(places[0].flight->Append("z").ok());
  places[0].flight->Finish(NamedSummary());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complete, kWaiters);
}

}  // namespace
}  // namespace upscaled::server
