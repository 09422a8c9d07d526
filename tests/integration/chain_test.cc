// Models of scale 1, and several models in one request.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using client::WriteText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Turns every value v into 1 - v, pixel by pixel.
void WriteInversion(const TempFolder& folder, const std::string& name) {
  WriteText(folder / (name + ".param"),
            "7767517\n2 2\nInput in 0 1 x\nConvolution c 1 1 x y 0=3 1=1 5=1 6=9\n");
  std::vector<float> values = {-1, 0, 0, 0, -1, 0, 0, 0, -1, 1, 1, 1};
  std::string bin(4, '\0');
  bin.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  WriteText(folder / (name + ".bin"), bin);
}

class ChainTest : public ::testing::Test {
 protected:
  ServerConfig Config() {
    WriteInversion(folder_, "1x-invert");  // before the server starts
    ServerConfig config = TestConfig();
    config.model_repositories = {folder_.path(), "engine/model/bundled"};
    config.bundled_models_last = true;
    return config;
  }
  Outcome Run(const std::string& model, double scale, const std::string& image) {
    pb::UpscaleOptions options;
    options.set_model(model);
    options.set_keep_colours(false);  // else the inversion's would come back
    if (scale > 0) options.set_scale(scale);
    return UpscaleImage(server_.stub(), options, image);
  }
  // The result, if any.
  Image Compute(const std::string& model, double scale, const Image& source) {
    const Outcome outcome = Run(model, scale, *test::Encode(source.view(), {}));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    if (!outcome.status.ok()) return Image({1, 1, 3, SampleType::kU8});
    EXPECT_EQ(outcome.header->model(), model);
    return std::move(test::Decode(outcome.image)->image);
  }
  static Image Inverted(const Image& source) {
    Image result(source.spec());
    const ImageView view = source.view();
    for (int y = 0; y < source.spec().height_px; ++y) {
      for (int i = 0; i < 3 * source.spec().width_px; ++i) {
        result.mutable_view().row(y)[i] = static_cast<uint8_t>(255 - view.row(y)[i]);
      }
    }
    return result;
  }

  TempFolder folder_;
  TestServer server_{Config()};
  std::mt19937 random_ = test::FreshRandom();
  const Image source_ = test::PhotoImage({53, 31, 3, SampleType::kU8}, random_);
};

TEST_F(ChainTest, AModelOfScaleOneRunsWithAndWithoutAScale) {
  const Image inverted = Inverted(source_);
  for (const double scale : {0.0, 1.0}) {
    EXPECT_EQ(test::LargestDifference(Compute("1x-invert", scale, source_).view(), inverted.view()),
              0)
        << scale;
  }
  const Image larger = Compute("1x-invert", 2, source_);
  EXPECT_EQ(larger.spec().width_px, 106);
  const std::string image = *test::Encode(source_.view(), {});
  EXPECT_THAT(Run("1x-invert", 2, image).header->warnings(),
              ElementsAre("1x-invert is a 1x model: it keeps the size of 53x31, and a resize makes "
                          "106x62 of it"));
  EXPECT_THAT(Run("1x-invert", 1, image).header->warnings(), IsEmpty());
  EXPECT_THAT(Run("1x-invert,fast-2x", 1, image).header->warnings(),
              ElementsAre(HasSubstr("fast-2x did not run")));
  EXPECT_LE(test::LargestDifference(Compute("1x-invert", 1, larger).view(),
                                    Compute("1x-invert,1x-invert", 2, source_).view()),
            1);
}

TEST_F(ChainTest, GivesWhatItsModelsGiveOneAfterTheOther) {
  const Image inverted = Inverted(source_);
  EXPECT_LE(test::LargestDifference(Compute("1x-invert,fast-2x", 0, source_).view(),
                                    Compute("fast-2x", 0, inverted).view()),
            1);
  EXPECT_LE(test::LargestDifference(Compute("fast-2x,1x-invert", 2, source_).view(),
                                    Inverted(Compute("fast-2x", 2, source_)).view()),
            1);
  EXPECT_EQ(Compute("fast-2x,general-2x", 0, source_).spec().width_px, 4 * 53);
}

TEST_F(ChainTest, HasANameOfItsOwnForEachOrderOfModels) {
  const std::string image = *test::Encode(source_.view(), {});
  const auto etag = [&](const std::string& model) {
    const Outcome outcome = Run(model, 2, image);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    return outcome.header.has_value() ? outcome.header->etag() : "";
  };
  const std::string chain = etag("1x-invert,fast-2x");
  EXPECT_FALSE(chain.empty());
  EXPECT_EQ(etag(" 1x-invert , fast-2x"), chain);
  EXPECT_NE(etag("fast-2x,1x-invert"), chain);
  EXPECT_NE(etag("fast-2x"), chain);
  EXPECT_NE(etag("1x-invert"), chain);
  EXPECT_NE(etag("1x-invert,general-2x"), chain);
}

TEST_F(ChainTest, RefusesModelsThatAreNotThereAndTooMany) {
  const std::string image = *test::Encode(source_.view(), {});
  const auto message = [&](const std::string& model) {
    const Outcome outcome = Run(model, 0, image);
    EXPECT_FALSE(outcome.status.ok());
    return outcome.status.error_message();
  };
  EXPECT_THAT(message("1x-invert,none"), HasSubstr("no model 'none'"));
  EXPECT_THAT(message("1x-invert,"), HasSubstr("a name between its commas is empty"));
  EXPECT_THAT(message("a,a,a,a,a,a,a,a,a"), HasSubstr("names 9 models; the limit is 8"));
  EXPECT_THAT(message("fast-2x,fast-2x,fast-2x,fast-2x,fast-2x"), HasSubstr("enlarge by 32"));
}

}  // namespace
}  // namespace upscaled::server
