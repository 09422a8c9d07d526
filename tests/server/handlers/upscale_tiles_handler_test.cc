#include "server/handlers/upscale_tiles_handler.h"

#include <map>

#include <gmock/gmock.h>

#include "server/base/error.h"
#include "tests/server/handlers/call_streams.h"
#include "tests/server/handlers/engine_environment.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using TilesRequest = pb::UpscaleTilesRequest;
using TilesResponse = pb::UpscaleTilesResponse;
using testing::HasSubstr;

TilesRequest TilesStart(pb::UpscaleTilesStart start = {}) {
  TilesRequest request;
  *request.mutable_start() = std::move(start);
  return request;
}

TilesRequest TileOf(uint64_t id, int width_px, int height_px) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({width_px, height_px, 3, SampleType::kU8}, random);
  TilesRequest request;
  pb::Tile& tile = *request.mutable_tile();
  tile.set_id(id);
  tile.set_width_px(width_px);
  tile.set_height_px(height_px);
  tile.set_bits_per_sample(8);
  const ImageView view = image.view();
  tile.set_pixels(view.row(0), view.spec.row_bytes() * static_cast<size_t>(height_px));
  return request;
}

class UpscaleTilesHandlerTest : public testing::Test {
 protected:
  absl::Status Run(std::vector<TilesRequest> messages, absl::Status end = absl::OkStatus()) {
    GivenMessages<TilesRequest> reader(std::move(messages), std::move(end));
    SentMessages<TilesResponse> writer;
    TestCall call;
    const absl::Status status =
        HandleUpscaleTiles(engine_.handlers(), call.context(), reader, writer);
    answers_.clear();
    for (const TilesResponse& answer : writer.messages()) {
      EXPECT_TRUE(answers_.emplace(answer.id(), answer).second) << "answered twice";
    }
    record_ = call.record;
    return status;
  }

  EngineEnvironment engine_;
  std::map<uint64_t, TilesResponse> answers_;  // of the last call, by id; the header's is 0
  RequestRecord record_;
};

TEST_F(UpscaleTilesHandlerTest, AnswersEachTile) {
  pb::UpscaleTilesStart start;
  start.set_model("fast-2x");
  std::vector<TilesRequest> messages = {TilesStart(start)};
  for (int id = 1; id <= 9; ++id) messages.push_back(TileOf(id, 5 * id, 3 * id));
  const absl::Status status = Run(messages);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(answers_.size(), 9u);
  for (const auto& [id, answer] : answers_) {
    const int number = static_cast<int>(id);
    EXPECT_EQ(answer.tile().id(), id);
    EXPECT_EQ(answer.tile().width_px(), 10 * number);
    EXPECT_EQ(answer.tile().height_px(), 6 * number);
    EXPECT_EQ(std::ssize(answer.tile().pixels()), 3 * 10 * number * 6 * number);
  }
  EXPECT_EQ(record_.model, "fast-2x");
  EXPECT_EQ(record_.device, "cpu");
}

TEST_F(UpscaleTilesHandlerTest, OneBadTileFailsAlone) {
  TilesRequest bad = TileOf(2, 8, 8);
  bad.mutable_tile()->mutable_pixels()->pop_back();
  TilesRequest large = TileOf(3, 8, 8);
  large.mutable_tile()->set_width_px(1 << 30);
  TilesRequest negative = TileOf(4, 8, 8);
  negative.mutable_tile()->set_height_px(-8);
  const absl::Status status =
      Run({TilesStart(), TileOf(1, 8, 8), bad, large, negative, TileOf(5, 8, 8)});
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(answers_.size(), 5u);
  for (const uint64_t good : {1, 5}) EXPECT_TRUE(answers_[good].has_tile());
  for (const uint64_t wrong : {2, 3, 4}) {
    EXPECT_TRUE(answers_[wrong].has_error());
    EXPECT_NE(answers_[wrong].error().reason(), pb::ERROR_REASON_UNSPECIFIED);
    EXPECT_NE(answers_[wrong].error().message(), "");
  }
}

TEST_F(UpscaleTilesHandlerTest, RefusesStreamsOfAnotherOrder) {
  for (const std::vector<TilesRequest>& messages :
       {std::vector<TilesRequest>{},
        {TileOf(1, 8, 8)},
        {TilesRequest()},
        {TilesStart(), TilesStart()},
        {TilesStart(), TileOf(1, 8, 8), TilesRequest()}}) {
    EXPECT_EQ(ReasonOf(Run(messages)), ErrorReason::kInvalidOption);
  }
}

TEST_F(UpscaleTilesHandlerTest, NamesScalesAndLevelsOfTheModel) {
  pb::UpscaleTilesStart start;
  start.set_scale(3);
  absl::Status status = Run({TilesStart(start)});
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnknownModel);
  EXPECT_THAT(status.message(), HasSubstr("has no scale 3"));
  start.set_scale(2);
  start.set_noise_level(9);
  status = Run({TilesStart(start)});
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption);
  EXPECT_THAT(status.message(), HasSubstr("noise_level"));
}

TEST_F(UpscaleTilesHandlerTest, TellsReachIfAsked) {
  pb::UpscaleTilesStart start;
  start.set_report_header(true);
  const absl::Status status = Run({TilesStart(start), TileOf(1, 8, 8)});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_GT(answers_[0].header().reach_px(), 0);
}

TEST_F(UpscaleTilesHandlerTest, RefusesAComputationOfAnotherServer) {
  pb::UpscaleTilesStart start;
  start.set_computation("another");
  EXPECT_EQ(ReasonOf(Run({TilesStart(start), TileOf(1, 8, 8)})), ErrorReason::kInvalidOption);
  EXPECT_TRUE(answers_.empty());
}

TEST_F(UpscaleTilesHandlerTest, LeavesNoTileBehindWhenTheClientGoes) {
  const absl::Status status = Run({TilesStart(), TileOf(1, 64, 64), TileOf(2, 64, 64)},
                                  absl::CancelledError("the client is gone"));
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(engine_.admission().AwaitIdle(absl::Seconds(60)));
}

}  // namespace
}  // namespace upscaled::server
