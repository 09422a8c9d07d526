// Recipes from files, and what they do to images.
#include "engine/train/recipe.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "engine/train/degrade.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

absl::StatusOr<Recipe> Read(const std::string& text) {
  const std::string file = ::testing::TempDir() + "/recipe.json";
  std::ofstream(file) << text;
  return ReadRecipe(file);
}

TEST(RecipeTest, SaysWhatIsDone) {
  const auto recipe = Read(R"({"reductions": ["lanczos_linear", "box"], "exchange_colours": false,
      "blur": {"share": 0.25, "sigma_px": [0.5, 2]}, "chroma_subsampling": {"share": 1},
      "jpeg": {"share": 0.5, "quality": [60, 95]}})");
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->reductions,
            (std::vector<Reduction>{Reduction::kBox, Reduction::kLanczosLinear}));
  EXPECT_FALSE(recipe->exchange_colours);
  EXPECT_EQ(recipe->blur.share, 0.25);
  EXPECT_EQ(recipe->blur.max, 2);
  EXPECT_EQ(recipe->noise.share, 0);
  EXPECT_EQ(recipe->chroma_subsampling.share, 1);
  EXPECT_EQ(recipe->jpeg.min, 60);
  const std::string text = RecipeText(*recipe);
  EXPECT_EQ(text,
            R"({"reductions":["box","lanczos_linear"],"exchange_colours":false,)"
            R"("blur":{"share":0.25,"sigma_px":[0.5,2.0]},"chroma_subsampling":{"share":1.0},)"
            R"("jpeg":{"share":0.5,"quality":[60.0,95.0]}})");
  EXPECT_EQ(RecipeText(*Read(text)), text);
  EXPECT_EQ(RecipeText(*Read("{}")), RecipeText({}));
}

TEST(RecipeTest, NamesKeyValueAndLimit) {
  const struct {
    const char *text, *message;
  } kCases[] = {
      {"[1]", "is no JSON object"},
      {"{", "is no JSON object"},
      {R"({"jpg": {}})", "has an unknown key 'jpg'; known are reductions, exchange_colours, blur"},
      {R"({"blur": {"share": 1}, "blur": {"share": 0}})", "has the key 'blur' twice"},
      {R"({"reductions": ["area"]})",
       "'reductions' is [\"area\"], must be a list of box, bicubic, lanczos, box_linear"},
      {R"({"reductions": ["box", "box"]})", "each at most once"},
      {R"({"reductions": []})", "'reductions' is [], must be"},
      {R"({"exchange_colours": 1})", "'exchange_colours' is 1, must be true or false"},
      {R"({"noise": 3})", "'noise' is 3, must be an object"},
      {R"({"noise": {"share": 2, "sigma": [1, 2]}})",
       "'noise.share' is 2, must be a number in 0..1"},
      {R"({"noise": {"sigma": [1, 2]}})", "'noise.share' is null, must be"},
      {R"({"jpeg": {"share": 1, "quality": [0, 90]}})",
       "'jpeg.quality' is [0,90], must be two numbers in 1..100, the lesser one first"},
      {R"({"jpeg": {"share": 1, "quality": [90, 80]}})", "'jpeg.quality' is [90,80]"},
      {R"({"blur": {"share": 1, "sigma_px": "1"}})",
       "'blur.sigma_px' is \"1\", must be two numbers"},
      {R"({"chroma_subsampling": {"share": 1, "sigma": [1, 2]}})",
       "'chroma_subsampling' has an unknown key 'sigma'; known are share"}};
  for (const auto& [text, message] : kCases) {
    const absl::Status status = Read(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(message), status.message().npos) << status;
    EXPECT_NE(status.message().find("recipe.json: "), status.message().npos) << status;
  }
  EXPECT_EQ(ReadRecipe("/none/recipe.json").status().code(), absl::StatusCode::kNotFound);
}

size_t Bytes(const Image& image) { return image.spec().row_bytes() * image.spec().height_px; }

double MeanSquareBetween(const Image& a, const Image& b) {
  double sum = 0;
  for (int y = 0; y < a.spec().height_px; ++y) {
    for (size_t i = 0; i < a.spec().row_bytes(); ++i) {
      sum += std::pow(a.view().row(y)[i] - b.view().row(y)[i], 2);
    }
  }
  return sum / static_cast<double>(Bytes(a));
}

class SpoilTest : public ::testing::Test {
 protected:
  Image Spoilt(const Spoiling& spoiling) const {
    Image image(image_.spec());
    std::copy_n(image_.view().row(0), Bytes(image), image.mutable_view().row(0));
    Spoil(spoiling, image);
    return image;
  }

  std::mt19937 random_ = test::FreshRandom();
  const Image image_ = test::PhotoImage({64, 48, 3, SampleType::kU8}, random_);
};

TEST_F(SpoilTest, NothingByDefault) {
  EXPECT_TRUE(test::SameImages(Spoilt({}).view(), image_.view()));
}

TEST_F(SpoilTest, DoesWhatItSays) {
  EXPECT_NEAR(MeanSquareBetween(Spoilt({.noise_sigma = 4, .noise_seed = 1}), image_), 16, 3);
  const double good = MeanSquareBetween(Spoilt({.jpeg_quality = 95}), image_);
  const double poor = MeanSquareBetween(Spoilt({.jpeg_quality = 20}), image_);
  EXPECT_GT(good, 0);
  EXPECT_GT(poor, 3 * good);
  EXPECT_GT(MeanSquareBetween(Spoilt({.blur_sigma_px = 2}), image_),
            MeanSquareBetween(Spoilt({.blur_sigma_px = 0.5}), image_));
}

// A white pixel becomes a bell of its own brightness.
TEST_F(SpoilTest, BlursAsAGaussian) {
  Image image({41, 41, 3, SampleType::kU8});
  std::fill_n(image.mutable_view().row(0), Bytes(image), 0);
  const int half = 10;  // a square of white, so that eight bits can tell
  for (int y = 20 - half; y <= 20 + half; ++y) {
    std::fill_n(image.mutable_view().row(y) + 3 * (20 - half), 3 * (2 * half + 1), 255);
  }
  Spoil({.blur_sigma_px = 1.5}, image);
  const auto edge = [&](int distance) {
    return int{image.view().row(20)[3 * (20 + half + distance)]};
  };
  // The sum of the kernel up to there: 255 times the normal distribution, half a pixel off.
  EXPECT_NEAR(edge(0), 255 * 0.63, 2);
  EXPECT_NEAR(edge(1), 255 * 0.37, 2);
  EXPECT_NEAR(edge(3), 255 * 0.048, 2);
}

TEST_F(SpoilTest, SubsamplesColoursAlone) {
  const Image spoilt = Spoilt({.subsamples_chroma = true});
  const auto brightness = [](const Image& image, int x, int y) {
    const uint8_t* p = image.view().row(y) + 3 * x;
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
  };
  const auto red = [&](int x, int y) {
    return spoilt.view().row(y)[3 * x] - brightness(spoilt, x, y);
  };
  int clipped = 0;
  for (int y = 0; y < 48; ++y) {
    for (int x = 0; x < 64; ++x) {
      const uint8_t* p = spoilt.view().row(y) + 3 * x;
      if (std::min({p[0], p[1], p[2]}) == 0 || std::max({p[0], p[1], p[2]}) == 255) {
        ++clipped;
        continue;
      }
      ASSERT_NEAR(brightness(spoilt, x, y), brightness(image_, x, y), 0.6);
      const uint8_t* q = spoilt.view().row(y & ~1) + 3 * (x & ~1);
      if (std::min({q[0], q[1], q[2]}) == 0 || std::max({q[0], q[1], q[2]}) == 255) continue;
      ASSERT_NEAR(red(x, y), red(x & ~1, y & ~1), 2.1);
    }
  }
  EXPECT_LT(clipped, 64 * 48 / 2);
  EXPECT_GT(MeanSquareBetween(spoilt, image_), 0);
}

TEST(DrawSpoilingTest, FollowsSharesAndRanges) {
  Recipe recipe;
  recipe.blur = {.share = 0.5, .min = 1, .max = 2};
  recipe.jpeg = {.share = 1, .min = 70, .max = 80};
  std::mt19937_64 random(5);
  int blurred = 0;
  for (int i = 0; i < 1000; ++i) {
    const Spoiling spoiling = DrawSpoiling(recipe, random);
    EXPECT_EQ(spoiling.noise_sigma, 0);
    EXPECT_FALSE(spoiling.subsamples_chroma);
    EXPECT_GE(spoiling.jpeg_quality, 70);
    EXPECT_LE(spoiling.jpeg_quality, 80);
    if (spoiling.blur_sigma_px == 0) continue;
    ++blurred;
    EXPECT_GE(spoiling.blur_sigma_px, 1);
    EXPECT_LE(spoiling.blur_sigma_px, 2);
  }
  EXPECT_NEAR(blurred, 500, 80);
}

}  // namespace
}  // namespace upscaled::train
