// Calls with a deadline too soon are refused with an estimate, over both interfaces.
#include <cstring>
#include <future>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// An image of one colour, with no pixels to count and few bytes.
std::string Plain(int width_px, int height_px) {
  Image image({width_px, height_px, 3, SampleType::kU8});
  std::memset(image.mutable_view().data, 0x80, image.spec().row_bytes() * height_px);
  return *test::Encode(image.view(), {});
}

class DeadlinesTest : public ::testing::Test {
 protected:
  Outcome Call(const std::string& image, absl::Duration timeout) {
    return UpscaleImage(server_.stub(), pb::UpscaleOptions(), image, timeout);
  }
  HttpAnswer Post(const std::string& target, const std::string& image) {
    return Request(server_.server().http_port(), "POST", target, image);
  }
  // The speed is known after it.
  void ComputeOne() {
    const Outcome outcome = Call(Plain(64, 64), absl::InfiniteDuration());
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  }
  // Half a second for 64 x 64 pixels.
  void ComputeOneSlowly() {
    server_.gate().Close();
    auto slow = std::async(std::launch::async, [&] { ComputeOne(); });
    server_.gate().AwaitWaiting(1);
    absl::SleepFor(absl::Milliseconds(500));
    server_.gate().Open();
    slow.get();
  }

  // An image of more than 10 s, where a core does less than 200 multiply-adds a nanosecond.
  const std::string large_ = Plain(6000, 5000);
  TestServer server_;
};

TEST_F(DeadlinesTest, WithoutAKnownSpeedAllAreAdmitted) {
  EXPECT_EQ(Post("/v1/upscale?dry_run=1&timeout=5", large_).status, 200);
  EXPECT_TRUE(Call(Plain(8, 8), absl::Minutes(1)).status.ok());
}

TEST_F(DeadlinesTest, HeadersAndLogsHaveTheForecast) {
  EXPECT_FALSE(Call(Plain(8, 8), absl::InfiniteDuration()).header->has_estimate());
  const Outcome outcome = Call(Plain(9, 8), absl::InfiniteDuration());
  EXPECT_GT(outcome.header->estimate().nanos(), 0);
  EXPECT_THAT(server_.log(), HasSubstr("forecast_ms="));
}

TEST_F(DeadlinesTest, RefusesWhatTakesTooLongBeforeItsPixels) {
  ComputeOne();
  const Outcome refused = Call(large_, absl::Seconds(3));
  EXPECT_TRUE(IsError(refused.status, StatusCode::RESOURCE_EXHAUSTED, "DEADLINE_INFEASIBLE",
                      "the image would take "));
  EXPECT_FALSE(refused.header.has_value());
  const auto info = ErrorInfoOf(refused.status);
  ASSERT_TRUE(info.has_value());
  EXPECT_TRUE(info->metadata().contains("deadline"));
  EXPECT_TRUE(info->metadata().contains("estimate"));
  EXPECT_EQ(RetryDelayOf(refused.status), std::nullopt) << "it alone takes too long";
  EXPECT_EQ(server_.server().admission_state().queue_cost, 0);

  const HttpAnswer late = Post("/v1/upscale?timeout=3", large_);
  EXPECT_EQ(late.status, 429) << late.body;
  EXPECT_EQ(json::parse(late.body)["reason"], "DEADLINE_INFEASIBLE");
  EXPECT_EQ(Post("/v1/upscale?timeout=3&dry_run=1", large_).status, 429);
  EXPECT_EQ(Post("/v1/upscale?timeout=100000&dry_run=1", large_).status, 200);
  EXPECT_EQ(Post("/v1/upscale?timeout=10000", Plain(8, 8)).status, 200);
  EXPECT_TRUE(Call(Plain(9, 8), absl::Minutes(10)).status.ok());
}

// Another call's queued work delays the image by as much as its own, and no more.
TEST_F(DeadlinesTest, SaysWhenAsMuchTimeWouldDo) {
  ComputeOne();
  server_.gate().Close();
  grpc::ClientContext context;
  const auto stream = server_.stub().UpscaleImage(&context);
  stream->Write(StartMessage({}));
  stream->Write(ChunkMessage(Plain(6000, 6000)));
  stream->WritesDone();
  server_.gate().AwaitWaiting(1);

  EXPECT_THAT(Request(server_.server().admin_port(), "GET", "/metrics").body,
              ContainsRegex("upscaled_backlog_seconds\\{devices=\"[^\"]+\"\\} [1-9]"));

  const auto problem = [&](double timeout_s) {
    const std::string target = absl::StrCat("/v1/upscale?dry_run=1&timeout=", timeout_s);
    json parsed = json::parse(Post(target, large_).body);
    EXPECT_EQ(parsed["reason"], "DEADLINE_INFEASIBLE") << parsed;
    return parsed;
  };
  const auto seconds = [](const json& refusal, const char* name) {
    absl::Duration duration;
    EXPECT_TRUE(absl::ParseDuration(refusal["metadata"].value(name, ""), &duration)) << refusal;
    return absl::ToDoubleSeconds(duration);
  };
  const double estimate_s = seconds(problem(5), "estimate");
  const json feasible_later = problem(0.75 * estimate_s);
  EXPECT_NEAR(feasible_later.value("retry_after_seconds", 0.0),
              seconds(feasible_later, "estimate") - seconds(feasible_later, "deadline"), 0.003);
  EXPECT_EQ(Post(absl::StrCat("/v1/upscale?dry_run=1&timeout=", 1.25 * estimate_s), large_).status,
            200);
  context.TryCancel();
  stream->Finish();
}

// An equal call takes part in a computation, and may have less time than the call that began it.
TEST_F(DeadlinesTest, RefusesToShareAComputationThatTakesTooLong) {
  ComputeOneSlowly();
  const std::string image = Plain(1000, 1000);
  server_.gate().Close();
  auto first =
      std::async(std::launch::async, [&] { return Call(image, absl::InfiniteDuration()); });
  server_.gate().AwaitWaiting(1);
  const Outcome refused = Call(image, absl::Seconds(1));
  EXPECT_TRUE(IsError(refused.status, StatusCode::RESOURCE_EXHAUSTED, "DEADLINE_INFEASIBLE",
                      "the image would take "));
  EXPECT_TRUE(RetryDelayOf(refused.status).has_value()) << "a second will do before its end";
  EXPECT_FALSE(refused.header.has_value());
  auto patient = std::async(std::launch::async, [&] { return Call(image, absl::Hours(1)); });
  server_.gate().Open();
  const Outcome begun = first.get(), shared = patient.get();
  EXPECT_TRUE(begun.status.ok()) << begun.status.error_message();
  EXPECT_TRUE(shared.status.ok()) << shared.status.error_message();
  EXPECT_EQ(shared.image, begun.image);
}

// Minutes for the largest tile.
TEST_F(DeadlinesTest, RefusesTilesThatTakeTooLong) {
  ComputeOneSlowly();
  // The answers to tiles of these sides, one after the other, and the call's end.
  const auto send = [&](std::initializer_list<int> sides_px) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(15)));
    const auto stream = server_.stub().UpscaleTiles(&context);
    pb::UpscaleTilesRequest message;
    message.mutable_start();
    stream->Write(message);
    std::vector<pb::UpscaleTilesResponse> answers;
    for (const int side_px : sides_px) {
      pb::Tile& tile = *message.mutable_tile();
      tile.set_width_px(side_px), tile.set_height_px(side_px), tile.set_bits_per_sample(8);
      tile.set_pixels(std::string(size_t{3} * side_px * side_px, 'x'));
      stream->Write(message);
      if (!stream->Read(&answers.emplace_back())) break;
    }
    stream->WritesDone();
    return std::pair(std::move(answers), stream->Finish());
  };
  const auto [none, refused] = send({1000});
  EXPECT_TRUE(IsError(refused, StatusCode::RESOURCE_EXHAUSTED, "DEADLINE_INFEASIBLE",
                      "the tile would take "));
  const auto [answers, status] = send({8, 1000, 8});
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(answers[0].has_tile()) << answers[0].error().message();
  EXPECT_EQ(answers[1].error().reason(), pb::ERROR_REASON_DEADLINE_INFEASIBLE);
  EXPECT_THAT(answers[1].error().message(), HasSubstr("the call's deadline is in "));
  EXPECT_TRUE(answers[2].has_tile()) << answers[2].error().message();
}

TEST_F(DeadlinesTest, ACallOverHttpEndsAtItsTimeout) {
  server_.gate().Close();
  const HttpAnswer answer = Post("/v1/upscale?timeout=0.3", Plain(8, 8));
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(json::parse(answer.body)["reason"], "DEADLINE");
  for (const char* wrong : {"0", "-1", "nan", "soon"}) {
    const HttpAnswer refused = Post(absl::StrCat("/v1/upscale?timeout=", wrong), Plain(8, 8));
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_THAT(refused.body, HasSubstr("a number of seconds above 0"));
  }
}

}  // namespace
}  // namespace upscaled::server
