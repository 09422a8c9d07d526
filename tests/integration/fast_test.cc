// Precision fast through the server: close to exact, the same for all tiles, and the outcome if it
// is not to be had.
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/quality.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMinPsnr_dB = 50;
constexpr char kImage[] = "deploy/demo/sample.png";

ServerConfig FastConfig() {
  ServerConfig config = TestConfig();
  config.precision = Precision::kFast;
  return config;
}

pb::Model FirstModel(TestServer& server) {
  grpc::ClientContext context;
  pb::ListModelsResponse response;
  EXPECT_TRUE(server.stub().ListModels(&context, {}, &response).ok());
  return response.models(0);
}

pb::UpscaleOptions Options(pb::Precision precision, int tile_px = 0) {
  pb::UpscaleOptions options;
  options.set_precision(precision);
  options.set_tile_px(tile_px);
  return options;
}

std::vector<float> Samples(const Image& image) {
  const uint8_t* const samples = image.view().data;
  return {samples, samples + image.bytes()};
}

TEST(FastTest, IsCloseToExactAndTheSameForAllTiles) {
  TestServer server(FastConfig());
  if (FirstModel(server).default_precision() != pb::PRECISION_FAST)
    GTEST_SKIP() << "no AVX512_VNNI here";
  const std::string image = client::ReadText(kImage);
  const Outcome exact = UpscaleImage(server.stub(), Options(pb::PRECISION_EXACT), image);
  const Outcome fast = UpscaleImage(server.stub(), Options(pb::PRECISION_FAST), image);
  ASSERT_TRUE(exact.status.ok()) << exact.status.error_message();
  ASSERT_TRUE(fast.status.ok()) << fast.status.error_message();
  EXPECT_FALSE(fast.image == exact.image) << "both are of one precision";
  const auto a = test::Decode(exact.image), b = test::Decode(fast.image);
  ASSERT_EQ(a->image.spec(), b->image.spec());
  const std::vector<float> a_samples = Samples(a->image), b_samples = Samples(b->image);
  const Size size{static_cast<int>(a->image.spec().row_bytes()), a->image.spec().height_px};
  EXPECT_GE(Psnr_dB({a_samples.data(), b_samples.data(), size}), kMinPsnr_dB);
  // The server's precision, by whole tiles and by small ones.
  for (const int tile_px : {0, 37, 64}) {
    const Outcome tiled =
        UpscaleImage(server.stub(), Options(pb::PRECISION_UNSPECIFIED, tile_px), image);
    ASSERT_TRUE(tiled.status.ok()) << tiled.status.error_message();
    EXPECT_TRUE(tiled.image == fast.image) << "tiles of " << tile_px;
  }
}

// As on machines without AVX512_VNNI.
TEST(FastTest, ModelsThatDoNotHaveItRunInExact) {
  ServerConfig config = FastConfig();
  config.cpu_isa = "portable";
  TestServer server(config);
  const pb::Model model = FirstModel(server);
  EXPECT_EQ(model.default_precision(), pb::PRECISION_EXACT);
  EXPECT_THAT(model.precisions(), ElementsAre(pb::PRECISION_EXACT));
  EXPECT_THAT(server.log(),
              HasSubstr("runs in exact unless a request says otherwise model=general-2x"));
  std::mt19937 random = test::FreshRandom();
  const std::string image =
      *test::Encode(test::PhotoImage({20, 20, 3, SampleType::kU8}, random).view(), {});
  const Outcome unnamed = UpscaleImage(server.stub(), Options(pb::PRECISION_UNSPECIFIED), image);
  ASSERT_TRUE(unnamed.status.ok()) << unnamed.status.error_message();
  const Outcome exact = UpscaleImage(server.stub(), Options(pb::PRECISION_EXACT), image);
  EXPECT_TRUE(unnamed.image == exact.image);
  const Outcome fast = UpscaleImage(server.stub(), Options(pb::PRECISION_FAST), image);
  EXPECT_EQ(fast.status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(fast.status.error_message(), HasSubstr("no precision 'fast'"));
}

}  // namespace
}  // namespace upscaled::server
