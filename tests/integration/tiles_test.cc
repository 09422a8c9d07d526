// UpscaleTiles: raw tiles in, raw tiles out.
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include <gmock/gmock.h>

#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using client::WriteText;
using grpc::StatusCode;
using test::FreshRandom;
using test::RandomInt;
using ::testing::HasSubstr;

using TilesStream = grpc::ClientReaderWriter<pb::UpscaleTilesRequest, pb::UpscaleTilesResponse>;

pb::UpscaleTilesRequest Start() {
  pb::UpscaleTilesRequest request;
  request.mutable_start();
  return request;
}

pb::UpscaleTilesRequest TileMessage(uint64_t id, const Image& image) {
  pb::UpscaleTilesRequest request;
  pb::Tile& tile = *request.mutable_tile();
  tile.set_id(id);
  tile.set_width_px(image.spec().width_px);
  tile.set_height_px(image.spec().height_px);
  tile.set_bits_per_sample(static_cast<int>(8 * SampleBytes(image.spec().type)));
  tile.set_pixels(std::string(reinterpret_cast<const char*>(image.view().data), image.bytes()));
  return request;
}

struct TilesOutcome {
  grpc::Status status;
  std::map<uint64_t, pb::UpscaleTilesResponse> responses;
};

class TilesTest : public ::testing::Test {
 protected:
  static TilesOutcome Finish(TilesStream& stream) {
    TilesOutcome outcome;
    pb::UpscaleTilesResponse response;
    while (stream.Read(&response)) {
      EXPECT_TRUE(outcome.responses.emplace(response.id(), response).second)
          << "tile " << response.id() << " came twice";
    }
    outcome.status = stream.Finish();
    return outcome;
  }

  // Sends all messages while reading.
  static TilesOutcome Send(pb::UpscaleService::Stub& stub,
                           const std::vector<pb::UpscaleTilesRequest>& messages) {
    grpc::ClientContext context;
    const auto stream = stub.UpscaleTiles(&context);
    TilesOutcome outcome;
    std::thread reader([&] { outcome = Finish(*stream); });
    for (const auto& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    reader.join();
    return outcome;
  }

  Image RandomTile(SampleType type) {
    return test::PhotoImage({RandomInt(random_, 1, 150), RandomInt(random_, 1, 150), 3, type},
                            random_);
  }

  // The pixels of UpscaleImage for the same image.
  static std::string Expected(pb::UpscaleService::Stub& stub, const Image& image,
                              const std::string& model = "") {
    pb::UpscaleOptions options;
    options.set_model(model);
    options.set_keep_16_bit(true);
    options.set_keep_colours(false);  // tiles are the network's own
    const auto decoded =
        test::Decode(UpscaleImage(stub, options, *test::Encode(image.view(), {})).image);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return std::string(reinterpret_cast<const char*>(decoded->image.view().data),
                       decoded->image.bytes());
  }

  std::mt19937 random_ = FreshRandom();
};

TEST_F(TilesTest, EachIsUpscaledAsAnImageOfItsOwn) {
  TestServer server;
  std::vector<Image> tiles;
  std::vector<pb::UpscaleTilesRequest> messages = {Start()};
  for (int i = 0; i < 12; ++i) {
    tiles.push_back(RandomTile(i % 3 == 0 ? SampleType::kU16 : SampleType::kU8));
    messages.push_back(TileMessage(1000 + i, tiles.back()));
  }
  const TilesOutcome outcome = Send(server.stub(), messages);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  ASSERT_EQ(outcome.responses.size(), tiles.size());
  for (size_t i = 0; i < tiles.size(); ++i) {
    const pb::UpscaleTilesResponse& response = outcome.responses.at(1000 + i);
    ASSERT_TRUE(response.has_tile()) << response.error().message();
    EXPECT_EQ(response.tile().id(), 1000 + i);
    EXPECT_EQ(response.tile().width_px(), 2 * tiles[i].spec().width_px);
    EXPECT_EQ(response.tile().height_px(), 2 * tiles[i].spec().height_px);
    EXPECT_EQ(response.tile().bits_per_sample(),
              static_cast<int>(8 * SampleBytes(tiles[i].spec().type)));
    EXPECT_TRUE(response.tile().pixels() == Expected(server.stub(), tiles[i])) << "tile " << i;
  }
  EXPECT_THAT(server.log(), HasSubstr("UpscaleTiles"));
}

// Enlarges by bilinear interpolation after weighing each plane by the means of the whole image.
void WriteExciteModel(const std::filesystem::path& folder) {
  WriteText(folder / "model.json",
            R"({"name": "excite", "family": "excite", "scale": 2,
                "files": {"param": "model.param", "bin": "model.bin"}})");
  WriteText(folder / "model.param",
            "7767517\n6 6\n"
            "Input in 0 1 x\n"
            "Split s 1 2 x a b\n"
            "Pooling p 1 1 a g 0=1 4=1\n"
            "InnerProduct i 1 1 g h 0=3 1=1 2=9 9=4\n"
            "Scale m 2 1 b h z 0=-233\n"
            "Interp r 1 1 z o 0=2 1=2.0 2=2.0\n");
  std::vector<float> numbers = {0};  // ncnn's tag of float32 weights, nine of these, three biases
  std::mt19937 random = FreshRandom();
  for (int i = 0; i < 9 + 3; ++i) {
    numbers.push_back(std::uniform_real_distribution<float>(-2, 2)(random));
  }
  WriteText(folder / "model.bin",
            std::string(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size()));
}

TEST_F(TilesTest, ANetworkThatSeesTheWholeImageTakesTheTileForIt) {
  const TempFolder repository;
  WriteExciteModel(repository / "excite");
  ServerConfig config = TestConfig();
  config.model_repositories.push_back(repository.path());
  TestServer server(config);
  auto start = Start();
  start.mutable_start()->set_model("excite");
  auto described = start;
  described.mutable_start()->set_report_header(true);
  EXPECT_TRUE(IsError(Send(server.stub(), {described}).status, StatusCode::UNIMPLEMENTED,
                      "UNSUPPORTED", "sees the whole image"));
  // One computed whole, and one shared by both streams.
  const Image small = test::PhotoImage({37, 41, 3, SampleType::kU8}, random_);
  const Image large = test::PhotoImage({900, 700, 3, SampleType::kU16}, random_);
  const TilesOutcome outcome =
      Send(server.stub(), {start, TileMessage(1, small), TileMessage(2, large)});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  for (const auto& [id, image] : {std::pair(1, &small), std::pair(2, &large)}) {
    ASSERT_TRUE(outcome.responses.at(id).has_tile()) << outcome.responses.at(id).error().message();
    EXPECT_TRUE(outcome.responses.at(id).tile().pixels() ==
                Expected(server.stub(), *image, "excite"))
        << "tile " << id;
  }
}

// The answer to a call without a tile.
pb::UpscaleTilesHeader HeaderOf(const TilesOutcome& outcome) {
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.responses.size(), 1u);
  return outcome.responses.empty() ? pb::UpscaleTilesHeader()
                                   : outcome.responses.begin()->second.header();
}

// The pixels of `rect` in `image` as a tile with a place, `reach_px` around it as far as there are.
pb::UpscaleTilesRequest PlacedMessage(uint64_t id, const Image& image, const Rect& rect,
                                      int reach_px) {
  const ImageSpec& spec = image.spec();
  const Rect held = Intersect(Expand(rect, reach_px), {0, 0, spec.width_px, spec.height_px});
  Image cut({held.width, held.height, 3, spec.type});
  for (int y = 0; y < held.height; ++y) {
    std::memcpy(cut.mutable_view().row(y), image.view().Crop(held).row(y), cut.spec().row_bytes());
  }
  pb::UpscaleTilesRequest request = TileMessage(id, cut);
  pb::TilePlace& place = *request.mutable_tile()->mutable_place();
  place.set_image_width_px(spec.width_px);
  place.set_image_height_px(spec.height_px);
  place.set_x_px(held.x);
  place.set_y_px(held.y);
  place.mutable_margins()->set_left_px(rect.x - held.x);
  place.mutable_margins()->set_top_px(rect.y - held.y);
  place.mutable_margins()->set_right_px(held.right() - rect.right());
  place.mutable_margins()->set_bottom_px(held.bottom() - rect.bottom());
  return request;
}

TEST_F(TilesTest, APartOfAnImageGetsItsBytesOfTheWhole) {
  TestServer server;
  auto start = Start();
  start.mutable_start()->set_report_header(true);
  const int reach_px = HeaderOf(Send(server.stub(), {start})).reach_px();
  ASSERT_GT(reach_px, 0);
  for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
    const Image image = test::PhotoImage({331, 197, 3, type}, random_);
    const std::string expected = Expected(server.stub(), image);
    std::vector<pb::UpscaleTilesRequest> messages = {Start()};
    std::vector<Rect> rects;
    for (int x = 0, width; x < 331; x += width) {
      width = std::min(RandomInt(random_, 40, 150), 331 - x);
      for (int y = 0, height; y < 197; y += height) {
        height = std::min(RandomInt(random_, 40, 150), 197 - y);
        messages.push_back(PlacedMessage(rects.size(), image, {x, y, width, height}, reach_px));
        rects.push_back({x, y, width, height});
      }
    }
    const TilesOutcome outcome = Send(server.stub(), messages);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    const size_t pixel_bytes = 3 * SampleBytes(type);
    for (size_t i = 0; i < rects.size(); ++i) {
      ASSERT_TRUE(outcome.responses.at(i).has_tile()) << outcome.responses.at(i).error().message();
      const pb::Tile& tile = outcome.responses.at(i).tile();
      const Rect rect = Scale(rects[i], 2);
      ASSERT_EQ(tile.width_px(), rect.width);
      ASSERT_EQ(tile.height_px(), rect.height);
      const size_t row_bytes = pixel_bytes * static_cast<size_t>(rect.width);
      for (int y = 0; y < rect.height; ++y) {
        const size_t at =
            (size_t{2 * 331} * static_cast<size_t>(rect.y + y) + static_cast<size_t>(rect.x)) *
            pixel_bytes;
        ASSERT_EQ(tile.pixels().compare(row_bytes * static_cast<size_t>(y), row_bytes, expected, at,
                                        row_bytes),
                  0)
            << "row " << y << " of the tile at " << rect.x << ", " << rect.y;
      }
    }
  }
}

TEST_F(TilesTest, ATileInAWrongPlaceFailsAlone) {
  TestServer server;
  const Image image = test::PhotoImage({120, 90, 3, SampleType::kU8}, random_);
  struct Case {
    std::function<void(pb::Tile&)> spoil;
    std::string message_part;
  };
  const Case cases[] = {
      {[](pb::Tile& tile) { tile.mutable_place()->set_image_width_px(0); }, "0 x 90"},
      {[](pb::Tile& tile) { tile.mutable_place()->set_image_height_px(1 << 21); }, "1048576"},
      {[](pb::Tile& tile) { tile.mutable_place()->set_x_px(-1); }, "-1"},
      {[](pb::Tile& tile) { tile.mutable_place()->set_y_px(60); }, "outside its image of 120 x 90"},
      {[](pb::Tile& tile) { tile.mutable_place()->mutable_margins()->set_left_px(1 << 30); },
       "1073741824"},
      {[](pb::Tile& tile) { tile.mutable_place()->mutable_margins()->set_top_px(70); },
       "nothing to compute"},
      {[](pb::Tile& tile) { tile.mutable_place()->mutable_margins()->set_right_px(0); },
       "reach_px"},
      {[](pb::Tile& tile) { tile.set_result_bits_per_sample(9); }, "result_bits_per_sample is 9"},
  };
  std::vector<pb::UpscaleTilesRequest> messages = {Start()};
  for (size_t i = 0; i < std::size(cases); ++i) {
    messages.push_back(PlacedMessage(i, image, {40, 30, 30, 30}, 32));
    cases[i].spoil(*messages.back().mutable_tile());
  }
  const TilesOutcome outcome = Send(server.stub(), messages);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  for (size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(outcome.responses.at(i).error().reason(), pb::ERROR_REASON_INVALID_IMAGE) << i;
    EXPECT_THAT(outcome.responses.at(i).error().message(), HasSubstr(cases[i].message_part));
  }
}

TEST_F(TilesTest, AnotherComputationThanTheOneWantedIsRefused) {
  TestServer server;
  auto start = Start();
  start.mutable_start()->set_report_header(true);
  const std::string computation = HeaderOf(Send(server.stub(), {start})).computation();
  ASSERT_EQ(computation.size(), 64u);
  start.mutable_start()->set_computation(computation);
  EXPECT_EQ(HeaderOf(Send(server.stub(), {start})).computation(), computation);
  start.mutable_start()->set_model("fast-2x");
  EXPECT_TRUE(IsError(Send(server.stub(), {start}).status, StatusCode::INVALID_ARGUMENT,
                      "INVALID_OPTION", computation));
}

TEST_F(TilesTest, ABadTileFailsAlone) {
  ServerConfig config = TestConfig();
  config.limits.max_tile_pixels = 150 * 150;
  TestServer server(config);
  const Image good = RandomTile(SampleType::kU8);
  auto empty = TileMessage(2, good), bits = TileMessage(3, good), bytes = TileMessage(4, good),
       large = TileMessage(5, Image({151, 150, 3, SampleType::kU8})),
       negative = TileMessage(6, good);
  empty.mutable_tile()->set_width_px(0);
  bits.mutable_tile()->set_bits_per_sample(12);
  bytes.mutable_tile()->mutable_pixels()->pop_back();
  negative.mutable_tile()->set_height_px(-7);
  const TilesOutcome outcome = Send(server.stub(), {Start(), TileMessage(1, good), empty, bits,
                                                    bytes, large, negative, TileMessage(7, good)});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  ASSERT_EQ(outcome.responses.size(), 7u);
  const std::string expected = Expected(server.stub(), good);
  for (const uint64_t id : {1, 7}) {
    EXPECT_TRUE(outcome.responses.at(id).tile().pixels() == expected);
  }
  struct Wanted {
    uint64_t id;
    pb::ErrorReason reason;
    std::string message_part;
  };
  for (const Wanted& wanted :
       {Wanted{2, pb::ERROR_REASON_INVALID_IMAGE, "0 x "},
        Wanted{3, pb::ERROR_REASON_INVALID_IMAGE, "bits_per_sample is 12"},
        Wanted{4, pb::ERROR_REASON_INVALID_IMAGE, std::to_string(good.bytes() - 1)},
        Wanted{5, pb::ERROR_REASON_LIMIT_EXCEEDED, "22500"},
        Wanted{6, pb::ERROR_REASON_INVALID_IMAGE, "-7"}}) {
    const pb::TileError& error = outcome.responses.at(wanted.id).error();
    EXPECT_EQ(error.code(), static_cast<int>(StatusCode::INVALID_ARGUMENT));
    EXPECT_EQ(error.reason(), wanted.reason);
    EXPECT_THAT(error.message(), HasSubstr(wanted.message_part));
  }
}

TEST_F(TilesTest, ABadOptionFailsTheCall) {
  TestServer server;
  const auto status_of = [&](const std::vector<pb::UpscaleTilesRequest>& messages) {
    return Send(server.stub(), messages).status;
  };
  const Image tile = test::RandomImage({8, 8, 3, SampleType::kU8}, random_);
  EXPECT_TRUE(
      IsError(status_of({}), StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "without a message"));
  EXPECT_TRUE(IsError(status_of({TileMessage(1, tile)}), StatusCode::INVALID_ARGUMENT,
                      "INVALID_OPTION", "first message must hold the options"));
  EXPECT_TRUE(IsError(status_of({Start(), TileMessage(1, tile), Start()}),
                      StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "only the first"));
  auto start = Start();
  start.mutable_start()->set_model("nope");
  EXPECT_TRUE(IsError(status_of({start}), StatusCode::NOT_FOUND, "UNKNOWN_MODEL", "general-2x"));
  start = Start();
  start.mutable_start()->set_scale(3);
  EXPECT_TRUE(
      IsError(status_of({start}), StatusCode::INVALID_ARGUMENT, "UNKNOWN_MODEL", "no scale 3"));
  start = Start();
  start.mutable_start()->set_noise_level(0);
  EXPECT_TRUE(
      IsError(status_of({start}), StatusCode::INVALID_ARGUMENT, "UNKNOWN_MODEL", "noise level 0"));
  start = Start();
  start.mutable_start()->set_noise_level(9);
  EXPECT_TRUE(
      IsError(status_of({start}), StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "-1 to 3"));
  start = Start();
  start.mutable_start()->set_precision(static_cast<pb::Precision>(5));
  EXPECT_TRUE(IsError(status_of({start}), StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "5"));
}

TEST_F(TilesTest, AFailingDeviceFailsTheTile) {
  TestServer server;
  server.gate().Fail(absl::InternalError("the chip is on fire"));
  const TilesOutcome outcome =
      Send(server.stub(), {Start(), TileMessage(1, RandomTile(SampleType::kU8))});
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.responses.at(1).error().reason(), pb::ERROR_REASON_DEVICE_FAILURE);
  EXPECT_EQ(outcome.responses.at(1).error().code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(outcome.responses.at(1).error().message(), HasSubstr("on fire"));
}

TEST_F(TilesTest, MoreThanTheQueueHolds) {
  TestServer server;
  const Image tile = test::PhotoImage({256, 256, 3, SampleType::kU8}, random_);
  const std::string expected = Expected(server.stub(), tile);
  std::vector<pb::UpscaleTilesRequest> messages = {Start()};
  for (int i = 0; i < 40; ++i) messages.push_back(TileMessage(i, tile));  // 30 MB of results
  const TilesOutcome outcome = Send(server.stub(), messages);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  ASSERT_EQ(outcome.responses.size(), 40u);
  for (const auto& [id, response] : outcome.responses) {
    EXPECT_TRUE(response.tile().pixels() == expected) << id;
  }
}

TEST_F(TilesTest, ATileBeyondTheQueueIsToldWhenToComeBack) {
  ServerConfig config = TestConfig();
  config.limits.max_queue_pixels = 64 * 64;
  TestServer server(config);
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  ASSERT_TRUE(stream->Write(Start()));
  const Image tile = test::PhotoImage({64, 64, 3, SampleType::kU8}, random_);
  // With its halo each is worth more than a quarter of the queue.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->Write(TileMessage(i, tile)));
  pb::UpscaleTilesResponse refused;
  ASSERT_TRUE(stream->Read(&refused));
  EXPECT_EQ(refused.id(), 4u);
  EXPECT_EQ(refused.error().reason(), pb::ERROR_REASON_OVERLOADED);
  EXPECT_GE(refused.error().retry_delay().seconds(), 1);
  server.gate().Open();
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_TRUE(Finish(*stream).responses.at(0).has_tile());
}

// Further tiles stay with the client; tiles reserve their memory in addition to their pixels.
TEST_F(TilesTest, OneCallHasABoundedNumberOfTilesInFlight) {
  constexpr int kTiles = 3000, kMaxInFlight = 1024;
  TestServer server;
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  ASSERT_TRUE(stream->Write(Start()));
  const Image tile = test::PhotoImage({1, 1, 3, SampleType::kU8}, random_);
  std::thread writer([&] {
    for (int i = 0; i < kTiles; ++i) EXPECT_TRUE(stream->Write(TileMessage(i, tile)));
    EXPECT_TRUE(stream->WritesDone());
  });
  const auto in_flight = [&] {
    const TileLoad load = server.server().tile_load();
    return load.queued_tiles + load.running_tiles;
  };
  test::Await([&] { return in_flight() >= kMaxInFlight; });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(in_flight(), kMaxInFlight);
  EXPECT_GT(server.server().admission_state().memory_bytes, int64_t{kMaxInFlight} * 4096);
  server.gate().Open();
  const TilesOutcome outcome = Finish(*stream);
  writer.join();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.responses.size(), size_t{kTiles});
}

TEST_F(TilesTest, CancellingDropsTheQueuedTiles) {
  TestServer server;
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  ASSERT_TRUE(stream->Write(Start()));
  const Image tile = test::PhotoImage({64, 64, 3, SampleType::kU8}, random_);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stream->Write(TileMessage(i, tile)));
  server.gate().AwaitWaiting(2);
  const int64_t running = server.server().tile_load().running_tiles;
  for (int i = 2; i < 10; ++i) ASSERT_TRUE(stream->Write(TileMessage(i, tile)));
  test::Await([&] { return server.server().tile_load().queued_tiles >= 8; });
  context.TryCancel();
  test::Await([&] { return server.server().tile_load().queued_tiles == 0; });
  EXPECT_EQ(server.server().tile_load().running_tiles, running);
  server.gate().Open();
  EXPECT_EQ(Finish(*stream).status.error_code(), StatusCode::CANCELLED);
}

TEST_F(TilesTest, AnErrorOfTheCallDropsTheQueuedTiles) {
  TestServer server;
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  ASSERT_TRUE(stream->Write(Start()));
  const Image tile = test::PhotoImage({64, 64, 3, SampleType::kU8}, random_);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stream->Write(TileMessage(i, tile)));
  server.gate().AwaitWaiting(2);
  const int64_t passed = server.gate().tiles_passed();
  for (int i = 2; i < 10; ++i) ASSERT_TRUE(stream->Write(TileMessage(i, tile)));
  test::Await([&] { return server.server().tile_load().queued_tiles >= 8; });
  ASSERT_TRUE(stream->Write(Start()));  // options belong into the first message only
  test::Await([&] { return server.server().tile_load().queued_tiles == 0; });
  EXPECT_EQ(server.gate().tiles_passed(), passed);
  const int64_t running = server.server().tile_load().running_tiles;
  server.gate().Open();
  EXPECT_TRUE(IsError(Finish(*stream).status, StatusCode::INVALID_ARGUMENT, "INVALID_OPTION",
                      "only the first"));
  EXPECT_EQ(server.gate().tiles_passed(), passed + running);
}

TEST_F(TilesTest, OneTileKeepsAllStreamsBusy) {
  TestServer server;
  const Image tile = test::PhotoImage({130, 71, 3, SampleType::kU8}, random_);
  const std::string expected = Expected(server.stub(), tile);
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  ASSERT_TRUE(stream->Write(Start()));
  ASSERT_TRUE(stream->Write(TileMessage(1, tile)));
  server.gate().AwaitWaiting(2);
  server.gate().Open();
  ASSERT_TRUE(stream->WritesDone());
  const TilesOutcome outcome = Finish(*stream);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_TRUE(outcome.responses.at(1).tile().pixels() == expected);
}

// A client with its next tile after the last one is back is not stalled, however long this takes;
// one without any is.
TEST_F(TilesTest, WaitingForATileIsNoStall) {
  ServerConfig config = TestConfig();
  config.stall_timeout = absl::Seconds(2);
  TestServer server(config);
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  ASSERT_TRUE(stream->Write(Start()));
  const Image tile = RandomTile(SampleType::kU8);
  ASSERT_TRUE(stream->Write(TileMessage(1, tile)));
  server.gate().AwaitWaiting(1);

  for (int i = 0; i < 2; ++i) {  // each takes the stall timeout
    grpc::ClientContext idle_context;
    const auto idle = server.stub().UpscaleTiles(&idle_context);
    ASSERT_TRUE(idle->Write(Start()));
    EXPECT_TRUE(IsError(Finish(*idle).status, StatusCode::ABORTED, "STALLED", "2s"));
  }
  server.gate().Open();
  pb::UpscaleTilesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_tile());
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_TRUE(Finish(*stream).status.ok());
}

}  // namespace
}  // namespace upscaled::server
