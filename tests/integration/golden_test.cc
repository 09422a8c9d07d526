// Public weights behind a server: the images of an independent implementation.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/engine/backends/golden_files.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using test::Golden;

constexpr double kMinEqualShare = 0.999;

// The noise level of a golden's file of weights, "noise1_scale2.0x_model".
int NoiseLevel(const std::filesystem::path& model) {
  const std::string file = model.filename();
  return file.starts_with("noise") ? file[5] - '0' : kNoDenoise;
}

// One network of local layers and one with a view of the whole image.
TEST(ServerGoldenTest, Upconv7AndCunetGiveTheGoldenImages) {
  const std::filesystem::path shared = test::SharedFolder();
  const std::vector<Golden> goldens = test::ListGoldens();
  if (goldens.empty()) GTEST_SKIP() << "no goldens under " << shared;
  ServerConfig config = TestConfig();
  config.model_repositories.push_back(shared / "models");
  TestServer server(config);
  int compared = 0;
  for (const Golden& golden : goldens) {
    const std::filesystem::path model = golden.model;
    const bool cunet = model.string().find("cunet") != std::string::npos && golden.scale == 2;
    if (!cunet && model.string().find("upconv_7") == std::string::npos) continue;
    SCOPED_TRACE(golden.model + " " + golden.image);
    pb::UpscaleOptions options;
    options.set_model(model.parent_path());
    options.set_noise_level(NoiseLevel(model));
    options.set_keep_colours(false);  // as the network gives them
    const Image source = test::ReadPng(shared / "golden" / "inputs" / (golden.image + ".png"));
    const Outcome outcome = UpscaleImage(server.stub(), options, *test::Encode(source.view(), {}));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    EXPECT_EQ(outcome.header->model(), model.parent_path());

    const auto result = test::Decode(outcome.image);
    ASSERT_TRUE(result.ok()) << result.status();
    const Image expected =
        test::ReadPng(shared / "golden" / golden.model / (golden.image + ".png"));
    ASSERT_EQ(result->image.spec(), expected.spec());
    const auto difference = test::CompareLevels(result->image.view(), expected.view());
    EXPECT_LE(difference.max_levels, 1);
    EXPECT_GE(difference.equal_share, kMinEqualShare);
    ++compared;
  }
  EXPECT_GE(compared, 9 + 6);
}

}  // namespace
}  // namespace upscaled::server
