#include "server/batching/fair_queue.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/batching/gated_backend.h"
#include "tests/server/batching/outcomes.h"

namespace upscaled::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FairQueueTest : public ::testing::Test {
 protected:
  // Flows and their queued tiles hold each other.
  ~FairQueueTest() override {
    std::vector<SubmittedTile> left;
    for (Flow* flow : queue_.flows()) queue_.Remove(*flow, left);
  }

  std::shared_ptr<Flow> OpenFlow(std::string client) {
    return std::make_shared<Flow>(++flows_, Payer{.address = std::move(client)});
  }
  std::shared_ptr<Flow> OpenFlow(std::string address, const TenantLimits& limits) {
    return std::make_shared<Flow>(++flows_,
                                  Payer{.address = std::move(address),
                                        .tenant = limits.tenant,
                                        .limits = std::make_shared<TenantLimits>(limits)});
  }
  std::shared_ptr<Submission> Submit(const std::shared_ptr<Flow>& flow, std::vector<TileTask> tiles,
                                     Cancellation* cancellation = nullptr) {
    auto submission = std::make_shared<Submission>(std::move(tiles), cancellation, nullptr, now_);
    submission->flow = flow;
    submission->executable = network_;
    queue_.Append(submission);
    return submission;
  }
  // The names of the next tiles to run.
  std::vector<int> Take(int64_t max_cost = 1) {
    const FairQueue::Batch batch = queue_.Take(*gated_.device, 1, max_cost);
    queue_.Ended(batch);
    std::vector<int> names;
    for (const SubmittedTile& tile : batch.tiles) names.push_back(tile.task().plan->tile.x);
    return names;
  }

  GatedDevice gated_{1};
  std::shared_ptr<const DeviceExecutable> network_ = NetworkOn({gated_.device});
  FairQueue queue_;
  uint64_t flows_ = 0;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(FairQueueTest, ClientsShareEquallyHoweverManyRequestsEachHas) {
  const auto alone = OpenFlow("a");
  std::vector<std::shared_ptr<Flow>> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(OpenFlow("b"));
  for (int i = 0; i < 10; ++i) Submit(crowd[i], NamedTiles(100 * (i + 1), 5, 10));
  Submit(alone, NamedTiles(0, 20, 10));
  int of_alone = 0;
  for (int i = 0; i < 40; ++i) of_alone += Take().front() < 100;
  EXPECT_EQ(of_alone, 20);
  EXPECT_EQ(queue_.load().queued_tiles, 30);
}

TEST_F(FairQueueTest, TheRequestsOfAClientShareItsPart) {
  const auto first = OpenFlow("a"), second = OpenFlow("a"), other = OpenFlow("b");
  Submit(first, NamedTiles(0, 9, 10));
  Submit(second, NamedTiles(100, 9, 20));
  Submit(other, NamedTiles(200, 9, 30));
  int64_t service[3] = {};
  for (int i = 0; i < 12; ++i) {
    const int name = Take().front();
    service[name / 100] += 10 * (name / 100 + 1);
  }
  EXPECT_NEAR(service[0], service[1], 30);
  EXPECT_NEAR(service[0] + service[1], service[2], 30);
}

TEST_F(FairQueueTest, AFlowGoesToThePayerWithWhomItIsDoneFirst) {
  const Payer crowd{.address = "crowd"}, alone{.address = "alone"};
  const Payer both[] = {crowd, alone};
  std::vector<std::shared_ptr<Flow>> flows;
  for (int i = 0; i < 10; ++i) {
    flows.push_back(OpenFlow("crowd"));
    Submit(flows.back(), NamedTiles(100 * (i + 1), 5, 10));
  }
  const auto shared = OpenFlow("crowd");
  Submit(shared, NamedTiles(0, 5, 10));
  EXPECT_EQ(queue_.BestPayer(*shared, {both, 1}).address, "crowd");
  EXPECT_EQ(queue_.BestPayer(*shared, both).address, "alone");
  queue_.ChangePayer(*shared, alone);
  EXPECT_EQ(queue_.BestPayer(*shared, both).address, "alone") << "no better place elsewhere";
  EXPECT_EQ(queue_.load().queued_tiles, 55);
  EXPECT_EQ(queue_.load().queued_cost, 550);
  int of_shared = 0;
  for (int i = 0; i < 10; ++i) of_shared += Take().front() < 100;
  EXPECT_EQ(of_shared, 5) << "half of the service";
}

TEST_F(FairQueueTest, AHeavierPayerIsBetterAndBackgroundWorse) {
  const auto tenant = [](const char* name, Priority priority, double weight) {
    return Payer{.tenant = name,
                 .limits = std::make_shared<TenantLimits>(
                     TenantLimits{.tenant = name, .priority = priority, .weight = weight})};
  };
  const Payer payers[] = {tenant("night", Priority::kBackground, 100),
                          tenant("light", Priority::kInteractive, 1),
                          tenant("heavy", Priority::kInteractive, 2)};
  Flow flow(1, payers[0]);
  EXPECT_EQ(queue_.BestPayer(flow, payers).tenant, "heavy");
  EXPECT_EQ(queue_.BestPayer(flow, {payers, 2}).tenant, "light");
  EXPECT_EQ(queue_.BestPayer(flow, {}).tenant, "night") << "all have left";
}

TEST_F(FairQueueTest, CostDecidesNotTheNumberOfTiles) {
  const auto heavy = OpenFlow("a"), light = OpenFlow("b");
  Submit(heavy, NamedTiles(0, 2, 1000));
  Submit(light, NamedTiles(100, 20, 100));
  EXPECT_THAT(Take(), ElementsAre(0));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Take(), ElementsAre(100 + i));
  EXPECT_THAT(Take(), ElementsAre(1));
}

TEST_F(FairQueueTest, ATenantIsOneClientWhateverItsAddresses) {
  std::vector<std::shared_ptr<Flow>> crowd;
  for (int i = 0; i < 5; ++i) {
    crowd.push_back(OpenFlow(absl::StrCat("10.0.0.", i), {.tenant = "crowd"}));
    Submit(crowd.back(), NamedTiles(100 * (i + 1), 10, 10));
  }
  const auto alone = OpenFlow("10.0.0.0", {.tenant = "alone"});
  Submit(alone, NamedTiles(0, 20, 10));
  int of_alone = 0;
  for (int i = 0; i < 40; ++i) of_alone += Take().front() < 100;
  EXPECT_EQ(of_alone, 20);
}

TEST_F(FairQueueTest, TenantsShareByTheirWeights) {
  const auto light = OpenFlow("a", {.tenant = "light"});
  const auto heavy = OpenFlow("a", {.tenant = "heavy", .weight = 3});
  Submit(light, NamedTiles(0, 40, 10));
  Submit(heavy, NamedTiles(100, 40, 10));
  int of_light = 0;
  for (int i = 0; i < 40; ++i) of_light += Take().front() < 100;
  EXPECT_NEAR(of_light, 10, 1);
}

TEST_F(FairQueueTest, BackgroundWorkRunsTileByTileWhileNoOtherWaits) {
  const auto background =
      OpenFlow("a", {.tenant = "night", .priority = Priority::kBackground, .weight = 100});
  const auto interactive = OpenFlow("a", {.tenant = "day"});
  Submit(background, NamedTiles(100, 6, 10));
  EXPECT_THAT(Take(100), ElementsAre(100)) << "a batch would hold up what comes now";
  Submit(interactive, NamedTiles(0, 3, 10));
  EXPECT_THAT(Take(20), ElementsAre(0, 1));
  EXPECT_THAT(Take(100), ElementsAre(2)) << "nor does it join others' batches";
  EXPECT_THAT(Take(100), ElementsAre(101));
  Submit(interactive, NamedTiles(10, 1, 10));
  EXPECT_THAT(Take(100), ElementsAre(10));
  EXPECT_THAT(Take(100), ElementsAre(102));
}

TEST_F(FairQueueTest, BackgroundWorkCanBeLeftOut) {
  Submit(OpenFlow("a", {.tenant = "night", .priority = Priority::kBackground}),
         NamedTiles(100, 2, 10));
  EXPECT_FALSE(queue_.HasWorkFor(*gated_.device, Priority::kInteractive));
  EXPECT_TRUE(queue_.HasWorkFor(*gated_.device));
  EXPECT_THAT(queue_.Take(*gated_.device, 1, 100, Priority::kInteractive).tiles, IsEmpty());
  EXPECT_THAT(Take(100), ElementsAre(100));
}

TEST_F(FairQueueTest, BackgroundWorkDoesNotCountForAStreamsShareOfOthers) {
  Submit(OpenFlow("a", {.tenant = "night", .priority = Priority::kBackground}),
         NamedTiles(100, 50, 10));
  const auto interactive = OpenFlow("a", {.tenant = "day"});
  Submit(interactive, NamedTiles(0, 4, 10));
  EXPECT_EQ(queue_.Take(*gated_.device, /*streams=*/2, 100).tiles.size(), 2u);
}

TEST_F(FairQueueTest, TenantsShareBackgroundTimeToo) {
  const auto first = OpenFlow("a", {.tenant = "a", .priority = Priority::kBackground});
  const auto second =
      OpenFlow("a", {.tenant = "b", .priority = Priority::kBackground, .weight = 2});
  Submit(first, NamedTiles(0, 30, 10));
  Submit(second, NamedTiles(100, 30, 10));
  int of_first = 0;
  for (int i = 0; i < 30; ++i) of_first += Take().front() < 100;
  EXPECT_NEAR(of_first, 10, 1);
}

// A client cannot begin again with every request while others wait.
TEST_F(FairQueueTest, AClientThatComesBackHasHadItsService) {
  const auto steady = OpenFlow("steady");
  Submit(steady, NamedTiles(0, 10, 10));
  EXPECT_THAT(Take(), ElementsAre(0));
  Submit(OpenFlow("hasty"), NamedTiles(100, 1, 30));
  EXPECT_THAT(Take(), ElementsAre(100));
  Submit(OpenFlow("hasty"), NamedTiles(101, 1, 30));
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_THAT(Take(), ElementsAre(2));
}

// Under a lasting load, new requests do not keep an older one of several tiles waiting for good:
// all share.
TEST_F(FairQueueTest, RequestsThatComeForEverPassAnOlderOneAsOftenAsTheyShareWithIt) {
  constexpr int kOthers = 10, kTiles = 5;
  const auto large = OpenFlow("a");
  Submit(large, NamedTiles(0, kTiles, 30));
  for (int i = 0; i < kOthers; ++i) Submit(OpenFlow("a"), NamedTiles(100, 1, 10));
  int takes = 0;
  for (int of_large = 0; of_large < kTiles; ++takes) {
    ASSERT_LT(takes, 1000);
    if (Take().front() < 100) {
      ++of_large;
    } else {
      Submit(OpenFlow("a"), NamedTiles(100, 1, 10));
    }
  }
  // Each of its tiles but the first waits until all others have had as much as the one before.
  EXPECT_NEAR(takes, (kTiles - 1) * (kOthers * 3 + 1), 3 * kOthers);
}

TEST_F(FairQueueTest, ClientsThatComeForEverDoNotKeepAnOlderOneWaiting) {
  const auto large = OpenFlow("large", {.tenant = "large", .weight = 2});
  Submit(large, NamedTiles(0, 5, 30));
  int clients = 0;
  const auto join = [&] { Submit(OpenFlow(absl::StrCat(++clients)), NamedTiles(100, 1, 10)); };
  for (int i = 0; i < 10; ++i) join();
  int takes = 0;
  for (int of_large = 0; of_large < 5; ++takes) {
    ASSERT_LT(takes, 1000);
    Take().front() < 100 ? static_cast<void>(++of_large) : join();
  }
  EXPECT_NEAR(takes, 4 * (10 * 3 / 2 + 1), 20) << "by its weight";
}

TEST_F(FairQueueTest, ABatchJoinsTheTilesOfManyUpToItsCost) {
  const auto first = OpenFlow("a"), second = OpenFlow("b");
  Submit(first, NamedTiles(0, 3, 10));
  Submit(second, NamedTiles(100, 3, 10));
  EXPECT_THAT(Take(45), ElementsAre(0, 100, 1, 101));
  EXPECT_THAT(Take(45), ElementsAre(2, 102));
  EXPECT_THAT(Take(45), IsEmpty());
}

TEST_F(FairQueueTest, TilesThatArePutBackComeFirstInTheirOrder) {
  const auto flow = OpenFlow("a");
  Submit(flow, NamedTiles(0, 4, 10));
  Submit(flow, NamedTiles(10, 2, 10));
  FairQueue::Batch batch = queue_.Take(*gated_.device, 1, 50);
  queue_.Ended(batch);
  ASSERT_EQ(batch.tiles.size(), 5u);
  for (auto tile = batch.tiles.rbegin(); tile != batch.tiles.rend(); ++tile) queue_.PutBack(*tile);
  EXPECT_EQ(queue_.load().queued_tiles, 6);
  EXPECT_EQ(queue_.load().queued_cost, 60);
  EXPECT_THAT(Take(30), ElementsAre(0, 1, 2));
  EXPECT_THAT(Take(30), ElementsAre(3, 10, 11));
}

TEST_F(FairQueueTest, AFlowMovesAsAWhole) {
  const auto moving = OpenFlow("a"), staying = OpenFlow("a");
  Submit(moving, NamedTiles(0, 3, 10));
  Submit(staying, NamedTiles(100, 1, 10));
  FairQueue other;
  queue_.Move(*moving, other);
  EXPECT_EQ(queue_.load().queued_tiles, 1);
  EXPECT_EQ(queue_.load().queued_cost, 10);
  EXPECT_EQ(other.load().queued_tiles, 3);
  EXPECT_EQ(other.load().queued_cost, 30);
  EXPECT_THAT(other.flows(), ElementsAre(moving.get()));
  EXPECT_THAT(Take(100), ElementsAre(100));
  EXPECT_EQ(other.Take(*gated_.device, 1, 100).tiles.size(), 3u);
}

TEST_F(FairQueueTest, TellsHowLongTilesOfEachPriorityHaveBeenQueuedWithoutABreak) {
  const auto day = OpenFlow("a");
  const auto night = OpenFlow("b", {.tenant = "night", .priority = Priority::kBackground});
  const auto backlogged = [&](const FairQueue& queue) {
    return std::vector{queue.Backlogged(Priority::kInteractive, now_),
                       queue.Backlogged(Priority::kBackground, now_)};
  };
  const absl::Duration second = absl::Seconds(1), none = absl::ZeroDuration();
  EXPECT_THAT(backlogged(queue_), ElementsAre(none, none));
  Submit(night, NamedTiles(100, 2));
  now_ += 5 * second;
  Submit(day, NamedTiles(0, 1));
  now_ += second;
  EXPECT_THAT(backlogged(queue_), ElementsAre(second, 6 * second));
  Submit(day, NamedTiles(10, 1));
  EXPECT_THAT(Take(2), ElementsAre(0, 10));
  EXPECT_THAT(backlogged(queue_), ElementsAre(none, 6 * second));
  FairQueue other;
  now_ += 60 * second;
  Submit(day, NamedTiles(20, 1));
  now_ += second;
  queue_.Move(*day, other);
  EXPECT_THAT(backlogged(queue_), ElementsAre(none, 67 * second));
  EXPECT_THAT(backlogged(other), ElementsAre(second, none));
  EXPECT_EQ(other.Take(*gated_.device, 1, 100).tiles.size(), 1u);
}

// Infeasible if a removal walks other queued tiles.
TEST_F(FairQueueTest, RemovingOneSubmissionAfterTheOtherTakesNoTimeForTheRest) {
  constexpr int kSubmissions = 300'000;
  const auto flow = OpenFlow("a");
  std::vector<std::shared_ptr<Submission>> submissions;
  for (int i = 0; i < kSubmissions; ++i) submissions.push_back(Submit(flow, {NamedTile(i)}));
  Submit(OpenFlow("b"), {NamedTile(-1)});
  std::vector<SubmittedTile> removed;
  for (auto last = submissions.rbegin(); last != submissions.rend(); ++last) {
    queue_.Remove(**last, removed);
  }
  EXPECT_EQ(removed.size(), size_t{kSubmissions});
  EXPECT_EQ(queue_.load().queued_tiles, 1);
  EXPECT_EQ(queue_.load().queued_cost, 1);
  EXPECT_THAT(Take(), ElementsAre(-1));
}

TEST_F(FairQueueTest, OneTakeDropsABoundedNumberOfCancelledTiles) {
  constexpr int kSubmissions = 10'000;
  const auto flow = OpenFlow("a");
  Cancellation cancellation;
  for (int i = 0; i < kSubmissions; ++i) Submit(flow, {NamedTile(i)}, &cancellation);
  cancellation.Cancel(absl::CancelledError("gone"));
  size_t dropped = 0;
  while (queue_.load().queued_tiles > 0) {
    const FairQueue::Batch batch = queue_.Take(*gated_.device, 1, 1);
    EXPECT_THAT(batch.tiles, IsEmpty());
    EXPECT_LE(batch.dropped.size(), 1024u);
    dropped += batch.dropped.size();
  }
  EXPECT_EQ(dropped, size_t{kSubmissions});
}

}  // namespace
}  // namespace upscaled::server
