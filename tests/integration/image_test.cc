// Images through UpscaleImage and Upscale, and their answers.
#include <gmock/gmock.h>

#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using test::Decode;
using test::Encode;
using test::FreshRandom;
using test::PhotoImage;
using test::RandomInt;
using ::testing::HasSubstr;

class ImageTest : public ::testing::Test {
 protected:
  std::string Png(int width, int height, int channels = 3, SampleType type = SampleType::kU8) {
    return *Encode(PhotoImage({width, height, channels, type}, random_).view(), {});
  }
  std::mt19937 random_ = FreshRandom();
};

TEST_F(ImageTest, TheUnaryCallGivesTheSame) {
  TestServer server;
  pb::UpscaleRequest request;
  request.set_image(Png(97, 61));
  request.set_request_id("c0ffee00-0000-4000-8000-000000000001");
  pb::UpscaleResponse response;
  grpc::ClientContext context;
  const grpc::Status status = server.stub().Upscale(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const Outcome streamed = UpscaleImage(server.stub(), request.options(), request.image());
  EXPECT_TRUE(response.image() == streamed.image);
  EXPECT_EQ(response.header().request_id(), request.request_id());
  EXPECT_EQ(response.header().result_width_px(), 194);
  EXPECT_EQ(response.summary().result_bytes(), static_cast<int64_t>(response.image().size()));
  EXPECT_THAT(server.log(), HasSubstr(request.request_id()));
}

TEST_F(ImageTest, AnySizeOfChunksGivesTheSame) {
  TestServer server;
  const std::string image = Png(120, 90);
  const auto start = StartMessage({}).start();
  const Outcome whole =
      UpscaleImage(server.stub(), start, image, absl::InfiniteDuration(), image.size());
  ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();
  for (const size_t chunk_bytes : {size_t{997}, size_t{20000}}) {
    const Outcome outcome =
        UpscaleImage(server.stub(), start, image, absl::InfiniteDuration(), chunk_bytes);
    EXPECT_TRUE(outcome.image == whole.image) << chunk_bytes;
  }
}

TEST_F(ImageTest, TheSummaryTellsWhatWasSpared) {
  TestServer server;
  Image plain({400, 300, 3, SampleType::kU8});
  std::fill_n(plain.mutable_view().data, plain.bytes(), uint8_t{90});
  const Outcome outcome =
      UpscaleImage(server.stub(), pb::UpscaleOptions(), *Encode(plain.view(), {}));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.summary->spared_pixels(), 400 * 300);
  const Outcome photo = UpscaleImage(server.stub(), pb::UpscaleOptions(), Png(400, 300));
  ASSERT_TRUE(photo.status.ok()) << photo.status.error_message();
  EXPECT_EQ(photo.summary->spared_pixels(), 0);
}

TEST_F(ImageTest, TileSizeDoesNotChangeTheResult) {
  TestServer server;
  const std::string image = Png(201, 143);
  const Outcome whole = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  ASSERT_TRUE(whole.status.ok());
  pb::UpscaleOptions options;
  options.set_tile_px(RandomInt(random_, 32, 100));
  const Outcome tiled = UpscaleImage(server.stub(), options, image);
  ASSERT_TRUE(tiled.status.ok());
  EXPECT_GT(tiled.header->tiles(), 1);
  EXPECT_EQ(tiled.summary->tiles(), tiled.header->tiles());
  EXPECT_TRUE(tiled.image == whole.image) << "tile_px " << options.tile_px();
}

TEST_F(ImageTest, SizesFormatsAndDepths) {
  TestServer server;
  const std::string image = Png(60, 40, 4, SampleType::kU16);
  pb::UpscaleOptions options;
  options.set_scale(3.5);
  options.set_format(pb::IMAGE_FORMAT_JPEG);
  options.set_keep_16_bit(true);
  Outcome outcome = UpscaleImage(server.stub(), options, image);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.header->result_width_px(), 210);
  EXPECT_EQ(outcome.header->result_height_px(), 140);
  EXPECT_EQ(outcome.header->format(), pb::IMAGE_FORMAT_JPEG);
  EXPECT_EQ(outcome.header->channels(), 3);
  EXPECT_EQ(outcome.header->bits_per_sample(), 8);
  EXPECT_EQ(Decode(outcome.image)->header.spec, (ImageSpec{210, 140, 3, SampleType::kU8}));

  options.Clear();
  options.mutable_size()->set_width_px(90);
  options.set_depth(pb::DEPTH_8);
  outcome = UpscaleImage(server.stub(), options, image);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(Decode(outcome.image)->header.spec, (ImageSpec{90, 60, 4, SampleType::kU8}));
  EXPECT_EQ(outcome.header->bits_per_sample(), 8);

  options.Clear();
  options.set_scale(4);
  outcome = UpscaleImage(server.stub(), options, image);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(Decode(outcome.image)->header.spec, (ImageSpec{240, 160, 4, SampleType::kU16}));
  EXPECT_EQ(outcome.header->bits_per_sample(), 16);
}

TEST_F(ImageTest, FitsIntoBothSides) {
  TestServer server;
  const Image source = PhotoImage({60, 40, 3, SampleType::kU8}, random_);
  const std::string image = *Encode(source.view(), {});
  const auto upscale = [&](pb::Fit fit, const std::string& encoded) {
    pb::UpscaleOptions options;
    options.mutable_size()->set_width_px(80);
    options.mutable_size()->set_height_px(80);
    options.mutable_size()->set_fit(fit);
    const Outcome outcome = UpscaleImage(server.stub(), options, encoded);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    EXPECT_EQ(outcome.header->source_width_px(), Decode(encoded)->header.spec.width_px);
    return outcome.image;
  };
  const auto size_of = [](const std::string& encoded) {
    return Decode(encoded)->header.spec.size();
  };
  EXPECT_EQ(size_of(upscale(pb::FIT_UNSPECIFIED, image)), (Size{80, 53}));
  EXPECT_EQ(size_of(upscale(pb::FIT_CONTAIN, image)), (Size{80, 53}));
  EXPECT_EQ(size_of(upscale(pb::FIT_STRETCH, image)), (Size{80, 80}));
  // Its middle, as if it had been sent.
  const std::string middle = *Encode(source.view().Crop({10, 0, 40, 40}), {});
  EXPECT_EQ(upscale(pb::FIT_COVER, image), upscale(pb::FIT_CONTAIN, middle));
}

TEST_F(ImageTest, ProgressComesWhenAskedFor) {
  TestServer server;
  pb::UpscaleOptions options;
  options.set_tile_px(32);
  const std::string image = Png(150, 100);
  Outcome outcome = UpscaleImage(server.stub(), StartMessage(options, true).start(), image);
  ASSERT_TRUE(outcome.status.ok());
  ASSERT_FALSE(outcome.progress.empty());
  int64_t last = 0;
  for (const pb::UpscaleProgress& progress : outcome.progress) {
    EXPECT_EQ(progress.tiles(), outcome.header->tiles());
    EXPECT_GE(progress.tiles_done(), 1);
    EXPECT_LE(progress.tiles_done(), progress.tiles());
    last = std::max(last, progress.tiles_done());
  }
  outcome = UpscaleImage(server.stub(), options, image);
  EXPECT_TRUE(outcome.progress.empty());
}

// The client gets rows while later tiles have not been computed.
TEST_F(ImageTest, RowsLeaveAsTheyComplete) {
  TestServer server;
  server.gate().Close();
  const Image noise = test::RandomImage({64, 3200, 3, SampleType::kU8}, random_);
  const std::string image = *Encode(noise.view(), {.compression = 0});
  pb::UpscaleOptions options;
  options.set_tile_px(64);
  options.set_png_compression(0);
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(StartMessage(options)));
  ASSERT_TRUE(stream->Write(ChunkMessage(image)));
  ASSERT_TRUE(stream->WritesDone());
  pb::UpscaleImageResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const int64_t tiles = response.header().tiles();
  ASSERT_GE(tiles, 40);
  server.gate().Allow(12);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_GT(response.chunk().size(), 0u);
  // An admitted run may hold several tiles; the last ones are still shut in.
  EXPECT_LT(server.gate().tiles_passed(), tiles);
  server.gate().Open();
  Outcome outcome;
  outcome.header = pb::UpscaleImageHeader();
  ReadToEnd(context, *stream, outcome);
  EXPECT_TRUE(outcome.status.ok());
}

TEST_F(ImageTest, EightClientsAtOnce) {
  TestServer server;
  std::vector<std::string> images;
  for (int i = 0; i < 4; ++i) {
    images.push_back(Png(RandomInt(random_, 20, 200), RandomInt(random_, 20, 200)));
  }
  std::vector<std::string> expected;
  for (const std::string& image : images) {
    expected.push_back(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).image);
  }
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      const auto stub = pb::UpscaleService::NewStub(server.NewChannel());
      for (int i = 0; i < 4; ++i) {
        const int which = (client + i) % 4;
        const Outcome outcome = UpscaleImage(*stub, pb::UpscaleOptions(), images[which]);
        EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
        EXPECT_TRUE(outcome.image == expected[which]);
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(ImageTest, OneLogLineAndTheMetricsForEachCall) {
  TestServer server;
  auto start = StartMessage({}).start();
  start.set_request_id("my-request-1");
  ASSERT_TRUE(UpscaleImage(server.stub(), start, Png(30, 20)).status.ok());
  const std::string log = server.log();
  EXPECT_THAT(log, HasSubstr("my-request-1"));
  // Listening, the device, ready, and the call.
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4) << log;
}

}  // namespace
}  // namespace upscaled::server
