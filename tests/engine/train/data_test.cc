// Images from a folder, their reductions, and patches of them.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/train/image_folder.h"
#include "engine/train/patches.h"
#include "engine/train/reduce.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

namespace fs = std::filesystem;

ImageSpec Rgb(int width, int height) { return {width, height, 3, SampleType::kU8}; }

TEST(ReduceTest, KeepsBrightnessAndBoxesAreMeans) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage(Rgb(24, 36), random);
  Image grey(Rgb(24, 36));
  std::fill_n(grey.mutable_view().row(0), grey.spec().row_bytes() * 36, 100);
  for (const int factor : {2, 3}) {
    for (const Reduction reduction : kReductions) {
      SCOPED_TRACE(ReductionName(reduction));
      const absl::StatusOr<Image> reduced = Reduce(image, factor, reduction);
      ASSERT_TRUE(reduced.ok()) << reduced.status();
      EXPECT_EQ(reduced->spec(), Rgb(24 / factor, 36 / factor));
      const Image flat = *Reduce(grey, factor, reduction);
      for (int i = 0; i < 24 / factor * 3; ++i) ASSERT_EQ(flat.view().row(3)[i], 100);
    }
  }
  const Image reduced = *Reduce(image, 2, Reduction::kBox);
  const auto at = [&](int x, int y) { return int{image.view().row(y)[x * 3 + 1]}; };
  EXPECT_EQ(reduced.view().row(4)[3 * 5 + 1],
            (at(10, 8) + at(11, 8) + at(10, 9) + at(11, 9) + 2) / 4);
  EXPECT_EQ(Enlarge(reduced, 2)->spec(), image.spec());
}

// As much light as white and black pixels give together, which is more than their values' mean.
TEST(ReduceTest, LinearReductionsKeepTheLight) {
  Image stripes(Rgb(24, 24));
  for (int y = 0; y < 24; ++y) {
    std::fill_n(stripes.mutable_view().row(y), stripes.spec().row_bytes(), y % 2 == 0 ? 255 : 0);
  }
  const auto middle = [&](Reduction reduction) {
    return int{Reduce(stripes, 2, reduction)->view().row(6)[3 * 6]};
  };
  EXPECT_EQ(middle(Reduction::kBox), 128);
  EXPECT_EQ(middle(Reduction::kBoxLinear), 188) << "1.055 * 0.5^(1 / 2.4) - 0.055";
  for (const Reduction reduction : {Reduction::kBicubicLinear, Reduction::kLanczosLinear}) {
    EXPECT_NEAR(middle(reduction), 188, 15) << ReductionName(reduction);
  }
}

class ImageFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "train-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void WriteImage(const std::string& name, const ImageSpec& spec, ImageFormat format) {
    Write(name, *test::Encode(test::PhotoImage(spec, random_).view(), {.format = format}));
  }

  std::mt19937 random_ = test::FreshRandom();
  fs::path folder_;
};

TEST_F(ImageFolderTest, ReadsWhatIsAnImageAndSkipsTheRest) {
  for (int i = 0; i < 20; ++i) {
    WriteImage(absl::StrCat(i, ".png"), Rgb(41 + i, 50), ImageFormat::kPng);
  }
  WriteImage("photo.jpg", Rgb(64, 48), ImageFormat::kJpeg);
  WriteImage("alpha.webp", {64, 48, 4, SampleType::kU8}, ImageFormat::kWebp);
  WriteImage("small.png", Rgb(64, 20), ImageFormat::kPng);
  Write("notes.txt", "no image");
  fs::create_symlink(folder_ / "photo.jpg", folder_ / "link.jpg");
  fs::create_directories(folder_ / "inner/most");
  WriteImage("inner/most/photo.jpg", Rgb(64, 48), ImageFormat::kJpeg);
  fs::create_directory_symlink(folder_ / "inner", folder_ / "twin");
  const auto loaded = LoadImageFolder(folder_, {.scale = 2, .min_side_px = 40});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->training.size() + loaded->held_out.size(), 23u);
  EXPECT_EQ(loaded->skipped.size(), 4u) << "the small one, the text and two links";
  ASSERT_FALSE(loaded->held_out.empty());
  for (const auto* images : {&loaded->training, &loaded->held_out}) {
    for (const TrainingImage& image : *images) {
      const ImageSpec& spec = image.original.spec();
      EXPECT_EQ(spec.width_px % 2, 0);
      EXPECT_EQ(spec.channels, 3);
      for (const Image& reduced : image.reduced) {
        EXPECT_EQ(reduced.spec(), Rgb(spec.width_px / 2, spec.height_px / 2));
      }
      EXPECT_EQ(IsHeldOut(image.file), images == &loaded->held_out);
    }
  }
}

TEST_F(ImageFolderTest, StaysWithinItsMemory) {
  for (int i = 0; i < 6; ++i) {
    WriteImage(absl::StrCat(i, ".png"), Rgb(i % 2 == 0 ? 300 : 60, 200), ImageFormat::kPng);
  }
  constexpr size_t kCacheBytes = 300'000;
  const auto loaded =
      LoadImageFolder(folder_, {.min_side_px = 20,
                                .reductions = {Reduction::kBox, Reduction::kLanczosLinear},
                                .cache_bytes = kCacheBytes});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  size_t bytes = 0;
  for (const auto* images : {&loaded->training, &loaded->held_out}) {
    for (const TrainingImage& image : *images) {
      bytes += image.original.bytes();
      for (const Image& reduced : image.reduced) bytes += reduced.bytes();
    }
  }
  EXPECT_LE(bytes, kCacheBytes);
  EXPECT_GT(bytes, kCacheBytes / 2);
}

// Each large image has its own small one, in the part that is kept, too.
TEST_F(ImageFolderTest, TakesPairsByTheirNames) {
  for (const char* folder : {"large/inner", "small/inner"})
    fs::create_directories(folder_ / folder);
  const auto write_pair = [&](const std::string& name, const std::string& small_name, Size small) {
    WriteImage("large/" + name, Rgb(3 * small.width, 3 * small.height), ImageFormat::kPng);
    WriteImage("small/" + small_name, Rgb(small.width, small.height), ImageFormat::kPng);
  };
  for (int i = 0; i < 4; ++i) {
    const std::string name = absl::StrCat(i % 2 == 0 ? "inner/" : "", i);
    write_pair(name + ".png", name + (i == 3 ? ".webp" : ".png"), {40 + i, 90});
  }
  write_pair("none.png", "other.png", {40, 40});
  write_pair("two.png", "two.png", {40, 40});
  WriteImage("small/two.jpg", Rgb(40, 40), ImageFormat::kJpeg);
  WriteImage("large/size.png", Rgb(121, 120), ImageFormat::kPng);
  WriteImage("small/size.png", Rgb(40, 40), ImageFormat::kPng);

  const auto loaded = LoadImageFolder(folder_ / "large", {.scale = 3,
                                                          .min_side_px = 30,
                                                          .reductions = {},
                                                          .small_images = folder_ / "small",
                                                          .cache_bytes = 70'000});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->training.size() + loaded->held_out.size(), 4u);
  const std::string skipped = absl::StrJoin(loaded->skipped, "\n");
  for (const char* why : {"none.png: has no small image of its name", "two.png: has 2 small images",
                          "size.png: has 121 x 120 pixels, and its small image 40 x 40",
                          "other.png: no large image has its name"}) {
    EXPECT_NE(skipped.find(why), skipped.npos) << why << " in:\n" << skipped;
  }
  for (const auto* images : {&loaded->training, &loaded->held_out}) {
    for (const TrainingImage& image : *images) {
      const ImageSpec& kept = image.original.spec();
      EXPECT_LT(kept.height_px, 270) << "a part";
      ASSERT_EQ(image.reduced.size(), 1u);
      EXPECT_EQ(image.reduced[0].spec(), Rgb(kept.width_px / 3, kept.height_px / 3));
    }
  }
}

// The small image's part shows the large one's: each small pixel is the mean of its nine.
TEST_F(ImageFolderTest, PairsKeepTheSamePart) {
  for (const char* folder : {"large", "small"}) fs::create_directory(folder_ / folder);
  for (int i = 0; i < 5; ++i) {
    const Image large = test::RandomImage(Rgb(150, 90), random_);
    const Image small = *Reduce(large, 3, Reduction::kBox);
    const std::string name = absl::StrCat("/", i, ".png");
    Write("large" + name, *test::Encode(large.view(), {.format = ImageFormat::kPng}));
    Write("small" + name, *test::Encode(small.view(), {.format = ImageFormat::kPng}));
  }
  const auto loaded = LoadImageFolder(
      folder_ / "large", {.scale = 3, .small_images = folder_ / "small", .cache_bytes = 60'000});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const TrainingImage& image : loaded->training) {
    EXPECT_LT(image.original.spec().width_px, 150) << "a part";
    const Image reduced = *Reduce(image.original, 3, Reduction::kBox);
    EXPECT_TRUE(test::SameImages(image.reduced[0].view(), reduced.view()));
  }
}

TEST_F(ImageFolderTest, HoldsOutAFileWhateverElseIsThere) {
  int held_out = 0;
  for (int i = 0; i < 800; ++i) held_out += IsHeldOut(absl::StrCat("IMG_", i, ".jpg")) ? 1 : 0;
  EXPECT_GT(held_out, 60);
  EXPECT_LT(held_out, 140);
}

TEST_F(ImageFolderTest, RefusesTooFewImages) {
  for (int i = 0; i < 3; ++i) {
    WriteImage(absl::StrCat(i, ".png"), Rgb(50, 50), ImageFormat::kPng);
  }
  const absl::Status status = LoadImageFolder(folder_, {.min_side_px = 40}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("has 3 images"), status.message().npos) << status;
  EXPECT_EQ(LoadImageFolder(folder_ / "none", {}).status().code(), absl::StatusCode::kNotFound);
}

class PatchesTest : public ::testing::Test {
 protected:
  PatchesTest() {
    std::mt19937 random = test::FreshRandom();
    for (int i = 0; i < 3; ++i) {
      TrainingImage image{.original = test::RandomImage(Rgb(40 + 2 * i, 36), random)};
      for (const Reduction reduction : recipe_.reductions) {
        image.reduced.push_back(*Reduce(image.original, 2, reduction));
      }
      images_.push_back(std::move(image));
    }
  }

  const PatchShape shape_{.side_px = 10, .pad_px = 3, .scale = 2};
  Recipe recipe_;
  std::vector<TrainingImage> images_;
};

TEST_F(PatchesTest, ARandomPatchDependsOnItsNumbersAlone) {
  std::set<std::vector<int>> seen;
  for (int step = 0; step < 4; ++step) {
    for (int index = 0; index < 4; ++index) {
      const Patch a = RandomPatch(images_, shape_, recipe_, 1, step, index);
      const Patch b = RandomPatch(images_, shape_, recipe_, 1, step, index);
      const auto key = [](const Patch& p) {
        return std::vector<int>{p.image, p.reduction, p.x, p.y, p.flip_x, p.flip_y, p.transpose};
      };
      EXPECT_EQ(key(a), key(b));
      seen.insert(key(a));
    }
  }
  EXPECT_GT(seen.size(), 12u);
}

// The box's mean ties input and target together, however they were turned.
TEST_F(PatchesTest, InputAndTargetShowTheSamePlace) {
  Tensor<float> input({2, {16, 16}}, 3), target({2, {20, 20}}, 3);
  for (int step = 0; step < 50; ++step) {
    Patch patch = RandomPatch(images_, shape_, recipe_, 7, step, 0);
    patch.reduction = 0;
    CutPatch(images_, shape_, patch, 1, input, target);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 10; ++y) {
        const int above = target.grid().Line(1, 2 * y);
        for (int x = 0; x < 10; ++x) {
          const float mean = (target.At(c, above, 2 * x) + target.At(c, above, 2 * x + 1) +
                              target.At(c, above + 1, 2 * x) + target.At(c, above + 1, 2 * x + 1)) /
                             4;
          ASSERT_NEAR(input.At(c, input.grid().Line(1, y + 3), x + 3), mean, 0.51 / 255);
        }
      }
    }
  }
}

// The patch that is drawn and cut is spoilt as a whole, and the target is not.
TEST_F(PatchesTest, SpoilsTheInputAlone) {
  recipe_.noise = {.share = 1, .min = 10, .max = 10};
  recipe_.exchange_colours = false;
  Tensor<float> input({1, {16, 16}}, 3), target({1, {20, 20}}, 3);
  Tensor<float> clean_input = input, clean_target = target;
  double squares = 0;
  for (int step = 0; step < 10; ++step) {
    Patch patch = RandomPatch(images_, shape_, recipe_, 7, step, 0);
    EXPECT_EQ(patch.colours, (std::array<int, 3>{0, 1, 2}));
    CutPatch(images_, shape_, patch, 0, input, target);
    patch.spoiling = {.shift_x = 5};
    CutPatch(images_, shape_, patch, 0, clean_input, clean_target);
    EXPECT_EQ(target.values(), clean_target.values());
    for (size_t i = 0; i < input.values().size(); ++i) {
      squares += std::pow(input.values()[i] - clean_input.values()[i], 2) / (10 * 3 * 16 * 16);
    }
  }
  EXPECT_NEAR(255 * std::sqrt(squares), 10, 2);
}

TEST_F(PatchesTest, SpreadOverAllImagesAndReductions) {
  const std::vector<Patch> patches = SpreadPatches(images_, shape_, recipe_, 5);
  EXPECT_EQ(patches.size(), 3 * recipe_.reductions.size() * 5);
  for (const Patch& patch : patches) {
    const ImageSpec& spec = images_[patch.image].reduced[patch.reduction].spec();
    EXPECT_LE(patch.x + shape_.side_px, spec.width_px);
    EXPECT_LE(patch.y + shape_.side_px, spec.height_px);
  }
}

}  // namespace
}  // namespace upscaled::train
