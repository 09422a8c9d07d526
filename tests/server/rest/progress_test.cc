#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/rest/progress_events.h"
#include "server/rest/progress_streams.h"
#include "tests/server/rest/rest_environment.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(ProgressEventsTest, TellsOfEachStep) {
  RequestProgress progress(/*total_bytes=*/1000);
  ProgressEvents events("id", kStart);
  EXPECT_EQ(events.Next(nullptr, kStart), "");
  EXPECT_EQ(events.Next(&progress, kStart),
            "event: queued\ndata: {\"tiles_done\":0,\"tiles\":0}\n\n");
  EXPECT_EQ(events.Next(&progress, kStart), "");
  progress.Receive(500);
  EXPECT_EQ(events.Next(&progress, kStart),
            "event: upload\ndata: {\"bytes\":500,\"total\":1000}\n\n");
  progress.Start(200);
  EXPECT_EQ(events.Next(&progress, kStart),
            "event: started\ndata: {\"tiles_done\":0,\"tiles\":200}\n\n");
  progress.Report(1);
  EXPECT_EQ(events.Next(&progress, kStart), "") << "less than a per cent";
  progress.Report(3);
  progress.Report(2);
  EXPECT_EQ(events.Next(&progress, kStart),
            "event: tiles\ndata: {\"tiles_done\":3,\"tiles\":200}\n\n");
  progress.Report(200);
  progress.End(absl::OkStatus(), "{\"a\":1}");
  EXPECT_FALSE(events.ended());
  EXPECT_EQ(events.Next(&progress, kStart),
            "event: done\ndata: {\"tiles_done\":200,\"tiles\":200,\"summary\":{\"a\":1}}\n\n");
  EXPECT_TRUE(events.ended());
}

TEST(ProgressEventsTest, TellsWhyARequestFailed) {
  RequestProgress progress(0);
  progress.End(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage, "no\nPNG"),
               "");
  ProgressEvents events("id", kStart);
  const std::string text = events.Next(&progress, kStart);
  EXPECT_THAT(text, HasSubstr("event: failed\ndata: {"));
  EXPECT_THAT(text, HasSubstr("\"status\":422"));
  EXPECT_TRUE(events.ended());
}

TEST(ProgressEventsTest, WaitsForARequestAndSendsComments) {
  ProgressEvents events("id", kStart);
  EXPECT_EQ(events.Next(nullptr, kStart + absl::Seconds(9)), "");
  EXPECT_EQ(events.Next(nullptr, kStart + absl::Seconds(10)), ":\n\n");
  EXPECT_EQ(events.Next(nullptr, kStart + absl::Seconds(19)), "");
  EXPECT_EQ(events.Next(nullptr, kStart + absl::Seconds(20)), ":\n\n");
  EXPECT_THAT(events.Next(nullptr, kStart + absl::Seconds(30)), HasSubstr("\"status\":404"));
  EXPECT_TRUE(events.ended());
}

class ProgressBoardTest : public testing::Test {
 protected:
  // For a listener of now.
  std::shared_ptr<RequestProgress> Find(const std::string& id) {
    return board_.Find({"", id}, clock_.Now());
  }
  // A request done at once.
  void Run(const std::string& id) { board_.Enter({"", id}, 0)->End(absl::OkStatus(), ""); }

  FakeClock clock_;
  ProgressBoard board_{clock_};
};

TEST_F(ProgressBoardTest, KnowsRequestsWhileTheyRun) {
  EXPECT_EQ(Find("a"), nullptr);
  {
    ProgressBoard::Entry first = board_.Enter({"", "a"}, 0);
    const auto found = Find("a");
    ProgressBoard::Entry second = board_.Enter({"", "a"}, 0);
    EXPECT_NE(Find("a"), found) << "the later one";
    first->End(absl::OkStatus(), "");
    first = {};
    clock_.Advance(ProgressBoard::kKeptFor);
    EXPECT_NE(Find("a"), nullptr) << "the first one's end is not the second one's";
    ProgressBoard::Entry moved = std::move(second);
    EXPECT_NE(Find("a"), nullptr);
  }
  EXPECT_EQ(Find("a"), nullptr) << "nobody knows how it ended";
}

TEST_F(ProgressBoardTest, KeepsEndsForAWhile) {
  Run("a");
  clock_.Advance(ProgressBoard::kKeptFor - absl::Milliseconds(1));
  Run("b");
  ASSERT_NE(Find("a"), nullptr);
  EXPECT_EQ(Find("a")->state().phase, RequestProgress::Phase::kEnded);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Find("a"), nullptr);
  EXPECT_NE(Find("b"), nullptr);
}

TEST_F(ProgressBoardTest, KeepsTheLatestEnds) {
  for (size_t i = 0; i <= ProgressBoard::kMaxKept; ++i) Run(absl::StrCat(i));
  EXPECT_EQ(Find("0"), nullptr);
  for (size_t i = 1; i <= ProgressBoard::kMaxKept; ++i) EXPECT_NE(Find(absl::StrCat(i)), nullptr);
}

TEST_F(ProgressBoardTest, TellsAnEndToThoseWhoListenedBeforeOthersWereTold) {
  Run("a");
  const absl::Time early = clock_.Now();
  Find("a")->SetTold(early);
  EXPECT_NE(board_.Find({"", "a"}, early), nullptr);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Find("a"), nullptr);
  const ProgressBoard::Entry next = board_.Enter({"", "a"}, 0);
  EXPECT_NE(Find("a"), nullptr);
}

class ProgressStreamsTest : public testing::Test {
 protected:
  absl::Status Add(const std::string& id, std::shared_ptr<FakeClient> client,
                   const std::string& address = "10.0.0.1", const std::string& tenant = "") {
    HttpRequest request{.peer = address, .parameter = id};
    if (!tenant.empty()) {
      request.caller = std::make_shared<Principal>(Principal{.name = "key", .tenant = tenant});
    }
    std::unique_ptr<HttpExchange> exchange =
        std::make_unique<FakeExchange>(std::move(request), std::move(client));
    return streams_.Add(exchange, {{"Vary", "Origin"}});
  }

  FakeClock clock_;
  ProgressBoard board_{clock_};
  std::vector<std::shared_ptr<FakeClient>> clients_;
  static constexpr int kMaxListenersPerAddress = 40;

  Timer timer_;
  ProgressStreams streams_{board_, timer_, clock_, kMaxListenersPerAddress};
};

TEST_F(ProgressStreamsTest, StreamsToWhomeverListens) {
  const auto early = std::make_shared<FakeClient>(), late = std::make_shared<FakeClient>();
  ASSERT_TRUE(Add("a", early).ok());
  ProgressBoard::Entry request = board_.Enter({"", "a"}, 0);
  ASSERT_TRUE(Add("a", late).ok());
  test::Await([&] { return !early->body().empty() && !late->body().empty(); });
  request->Start(1);
  request->End(absl::OkStatus(), "");
  for (const auto& client : {early, late}) {
    client->AwaitEnd();
    EXPECT_TRUE(client->finished());
    EXPECT_EQ(client->Field("Content-Type"), "text/event-stream");
    EXPECT_EQ(client->Field("Vary"), "Origin");
    EXPECT_THAT(client->body(), StartsWith("event: queued\n"));
    EXPECT_THAT(client->body(), HasSubstr("event: done\n"));
  }
}

TEST_F(ProgressStreamsTest, TellsLateListenersHowARequestEnded) {
  board_.Enter({"", "done"}, 0)->End(absl::OkStatus(), "{\"a\":1}");
  board_.Enter({"", "failed"}, 0)
      ->End(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage, "no PNG"),
            "");
  const auto done = std::make_shared<FakeClient>(), failed = std::make_shared<FakeClient>();
  ASSERT_TRUE(Add("done", done).ok());
  done->AwaitEnd();
  EXPECT_THAT(done->body(), HasSubstr("event: done\ndata: {\"tiles_done\":0,\"tiles\":0,\"summ"));
  ASSERT_TRUE(Add("failed", failed).ok());
  failed->AwaitEnd();
  EXPECT_THAT(failed->body(), HasSubstr("event: failed\ndata: {"));
  EXPECT_THAT(failed->body(), HasSubstr("no PNG"));
}

TEST_F(ProgressStreamsTest, AfterAToldFailureAListenerWaitsForTheNextTry) {
  board_.Enter({"", "a"}, 0)->End(absl::InternalError("the first try"), "");
  const auto first = std::make_shared<FakeClient>(), next = std::make_shared<FakeClient>();
  ASSERT_TRUE(Add("a", first).ok());
  first->AwaitEnd();
  clock_.Advance(absl::Milliseconds(100));
  ASSERT_TRUE(Add("a", next).ok());
  ProgressBoard::Entry request = board_.Enter({"", "a"}, 0);
  test::Await([&] { return !next->body().empty(); });
  request->End(absl::OkStatus(), "");
  next->AwaitEnd();
  EXPECT_THAT(next->body(), HasSubstr("event: done\n"));
  EXPECT_THAT(next->body(), Not(HasSubstr("event: failed\n")));
}

TEST_F(ProgressStreamsTest, BoundsListenersOfAnAddressAndLetsThemLeave) {
  std::vector<std::shared_ptr<FakeClient>> clients;
  for (int i = 0; i < kMaxListenersPerAddress; ++i) {
    clients.push_back(std::make_shared<FakeClient>());
    ASSERT_TRUE(Add("a", clients.back()).ok());
  }
  const absl::Status full = Add("a", std::make_shared<FakeClient>());
  EXPECT_EQ(ReasonOf(full), ErrorReason::kOverloaded);
  EXPECT_TRUE(RetryDelayOf(full).has_value());
  EXPECT_TRUE(Add("a", std::make_shared<FakeClient>(), "10.0.0.2").ok());
  clients.front()->Leave();
  clients.front()->AwaitEnd();
  test::Await([&] { return Add("a", std::make_shared<FakeClient>()).ok(); });
}

TEST_F(ProgressStreamsTest, AHeadersAskerListensToNothing) {
  for (int i = 0; i < 2 * kMaxListenersPerAddress; ++i) {
    const auto client = std::make_shared<FakeClient>();
    std::unique_ptr<HttpExchange> exchange = std::make_unique<FakeExchange>(
        HttpRequest{.method = "HEAD", .peer = "10.0.0.1", .parameter = "a"}, client);
    ASSERT_TRUE(streams_.Add(exchange, {}).ok());
    client->AwaitEnd();
    EXPECT_TRUE(client->finished());
    EXPECT_EQ(client->Field("Content-Type"), "text/event-stream");
    EXPECT_EQ(client->body(), "");
  }
}

TEST_F(ProgressStreamsTest, BoundsListenersOfATenantOverAllAddresses) {
  const auto add = [&](const std::string& tenant, int number) {
    const auto client = std::make_shared<FakeClient>();
    clients_.push_back(client);
    return Add("a", client, absl::StrCat("10.0.0.", number), tenant);
  };
  for (int i = 0; i < EventStreams::kMaxListenersPerTenant; ++i) {
    ASSERT_TRUE(add("shop", i).ok());
  }
  const absl::Status full = add("shop", 200);
  EXPECT_EQ(ReasonOf(full), ErrorReason::kOverloaded);
  EXPECT_THAT(std::string(full.message()), HasSubstr("64 progress streams of this tenant"));
  EXPECT_TRUE(add("other", 0).ok());
  EXPECT_TRUE(add("", 1).ok());
  clients_.front()->Leave();
  clients_.front()->AwaitEnd();
  test::Await([&] { return add("shop", 201).ok(); });
}

// How many clients of one address may listen.
int Listeners(const Limits& limits) {
  RestEnvironment env(limits);
  std::vector<std::shared_ptr<FakeClient>> clients;
  while (true) {
    clients.push_back(env.Call("GET", {.path = "/v1/progress/{request_id}", .parameter = "a"}));
    if (clients.back()->status() == 429) return static_cast<int>(clients.size()) - 1;
  }
}

TEST(ProgressShareTest, IsThatOfTheCalls) {
  EXPECT_EQ(Listeners({.max_concurrent_requests = 100, .max_requests_per_address = 10}), 25);
  // A proxy with all clients behind its address.
  EXPECT_EQ(Listeners({.max_concurrent_requests = 100, .max_requests_per_address = 100}),
            ProgressStreams::kMaxListeners);
}

}  // namespace
}  // namespace upscaled::server
