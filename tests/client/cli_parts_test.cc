// The parts of the command without a server.
#include <sys/stat.h>

#include <array>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/api_key.h"
#include "client/cli/errors.h"
#include "client/cli/image_plan.h"
#include "client/cli/load_stats.h"
#include "client/cli/progress_bar.h"
#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class ImagePlanTest : public ::testing::Test {
 protected:
  // Paths relative to the folder.
  std::vector<std::pair<std::string, std::string>> Plan(
      const std::string& input, const std::string& output,
      v1::ImageFormat format = v1::IMAGE_FORMAT_UNSPECIFIED) {
    const absl::StatusOr<ImagePlan> plan = PlanImages(folder_ / input, folder_ / output, format);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::vector<std::pair<std::string, std::string>> jobs;
    if (!plan.ok()) return jobs;
    for (const ImageJob& job : plan->jobs) {
      jobs.emplace_back(std::filesystem::path(job.input).lexically_relative(folder_.path()),
                        std::filesystem::path(job.output).lexically_relative(folder_.path()));
    }
    return jobs;
  }
  absl::Status Error(const std::string& input, const std::string& output) {
    return PlanImages(input == kStandardStream ? input : (folder_ / input).string(),
                      folder_ / output, v1::IMAGE_FORMAT_UNSPECIFIED)
        .status();
  }

  TempFolder folder_;
};

TEST_F(ImagePlanTest, AFileGoesIntoAFileOrAFolder) {
  WriteText(folder_ / "a.png", "");
  std::filesystem::create_directory(folder_ / "out");
  EXPECT_THAT(Plan("a.png", "b.png"), ElementsAre(Pair("a.png", "b.png")));
  EXPECT_THAT(Plan("a.png", "out"), ElementsAre(Pair("a.png", "out/a.png")));
  EXPECT_THAT(Plan("a.png", "out", v1::IMAGE_FORMAT_WEBP),
              ElementsAre(Pair("a.png", "out/a.webp")));
  EXPECT_THAT(Plan("a.png", "new/"), ElementsAre(Pair("a.png", "new/a.png")));
  EXPECT_THAT(Plan("a.png", "new/x/", v1::IMAGE_FORMAT_WEBP),
              ElementsAre(Pair("a.png", "new/x/a.webp")));
  for (const char* folder : {"out", "new/"}) {
    const absl::Status status = Error("-", folder);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("standard input has no name"));
  }
}

TEST_F(ImagePlanTest, AUrlGoesIntoAFileOrAFolder) {
  const auto plan = [&](const std::string& url, const std::string& output, v1::ImageFormat format) {
    const absl::StatusOr<ImagePlan> plan = PlanImages(url, output, format);
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->jobs[0].input, url);
    return plan->jobs[0].output;
  };
  const std::string url = "https://host/pets/cat.png?of=a/b.c#d";
  EXPECT_EQ(plan(url, "b.webp", v1::IMAGE_FORMAT_UNSPECIFIED), "b.webp");
  EXPECT_EQ(plan(url, "new/", v1::IMAGE_FORMAT_UNSPECIFIED), "new/cat.png");
  EXPECT_EQ(plan("HTTP://host/cat", "new/", v1::IMAGE_FORMAT_WEBP), "new/cat.webp");
  EXPECT_EQ(plan("http://host", "-", v1::IMAGE_FORMAT_WEBP), "-");
  EXPECT_EQ(plan("s3://bucket/pets/cat?of#.png", "new/", v1::IMAGE_FORMAT_WEBP),
            "new/cat?of#.webp");
  EXPECT_EQ(plan(url, "s3://bucket/new/", v1::IMAGE_FORMAT_WEBP), "s3://bucket/new/cat.webp");
  for (const char* nameless :
       {"https://host", "https://host/", "https://host?a/b", "http://h/a/", "s3://b/a/"}) {
    const absl::Status status = PlanImages(nameless, "new/", v1::IMAGE_FORMAT_PNG).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(nameless, " has no name")));
  }
}

TEST_F(ImagePlanTest, SomethingMustTellTheFormat) {
  WriteText(folder_ / "a.png", "");
  std::filesystem::create_directory(folder_ / "out");
  for (const auto& [input, output, name] :
       {std::array{"a.png", "b.gif", "b.gif"}, std::array{"-", "b.heic", "b.heic"}}) {
    const absl::Status status = Error(input, output);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << output;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(name, " is not named .png")));
  }
  EXPECT_THAT(Plan("a.png", "b.gif", v1::IMAGE_FORMAT_PNG), ElementsAre(Pair("a.png", "b.gif")));
  WriteText(folder_ / "a.bmp", {"BM\x36\x48\0\0\0\0\0\0\x36\0", 12});
  EXPECT_THAT(Plan("a.bmp", "out", v1::IMAGE_FORMAT_PNG), ElementsAre(Pair("a.bmp", "out/a.png")));
}

TEST_F(ImagePlanTest, AFolderWithoutImagesIsAnError) {
  WriteText(folder_ / "in/a.txt", "");
  const absl::Status status = Error("in", "out");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no images"));
}

TEST_F(ImagePlanTest, TheOutputTellsTheFormatUnlessItWasSaid) {
  WriteText(folder_ / "a.png", "");
  const std::map<std::string, v1::ImageFormat> kFormats = {{"b.JPEG", v1::IMAGE_FORMAT_JPEG},
                                                           {"b.jpg", v1::IMAGE_FORMAT_JPEG},
                                                           {"b.Png", v1::IMAGE_FORMAT_PNG},
                                                           {"b.webp", v1::IMAGE_FORMAT_WEBP},
                                                           {"b", v1::IMAGE_FORMAT_UNSPECIFIED}};
  for (const auto& [output, format] : kFormats) {
    const auto plan = PlanImages(folder_ / "a.png", folder_ / output, v1::IMAGE_FORMAT_UNSPECIFIED);
    EXPECT_EQ(plan.value().jobs[0].format, format) << output;
  }
  EXPECT_EQ(PlanImages(folder_ / "a.png", folder_ / "b.jpg", v1::IMAGE_FORMAT_WEBP)
                .value()
                .jobs[0]
                .format,
            v1::IMAGE_FORMAT_WEBP);
  EXPECT_EQ(PlanImages("-", "-", v1::IMAGE_FORMAT_UNSPECIFIED).value().jobs[0].format,
            v1::IMAGE_FORMAT_UNSPECIFIED);
}

TEST_F(ImagePlanTest, PatternsStandForTheirMatches) {
  for (const char* name : {"a.png", "b.png", "c.jpg", "[d].png", "x/e.png"}) {
    WriteText(folder_ / name, "");
  }
  const auto expand = [&](std::vector<std::string> inputs) -> absl::StatusOr<std::string> {
    for (std::string& input : inputs) input = folder_ / input;
    const absl::StatusOr<std::vector<std::string>> paths = ExpandPatterns(inputs);
    if (!paths.ok()) return paths.status();
    std::string names;
    for (const std::string& path : *paths) {
      absl::StrAppend(&names,
                      std::filesystem::path(path).lexically_relative(folder_.path()).native(), " ");
    }
    return names;
  };
  EXPECT_EQ(*expand({"*.png"}), "[d].png a.png b.png ");
  EXPECT_EQ(*expand({"c.jpg", "?.png", "*/*.png"}), "c.jpg a.png b.png x/e.png ");
  EXPECT_EQ(*expand({"[d].png"}), "[d].png ") << "the file of that name, and not d.png";
  EXPECT_EQ(*expand({"[ab].png", "none.png"}), "a.png b.png none.png ");
  const absl::Status none = expand({"*.gif"}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("no file matches"));
  EXPECT_EQ(*ExpandPatterns({"https://host/a*.png?b", "-"}),
            (std::vector<std::string>{"https://host/a*.png?b", "-"}));

  const auto plan =
      PlanInputs({folder_ / "[ab].png"}, folder_ / "new/", v1::IMAGE_FORMAT_UNSPECIFIED);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->jobs.size(), 2u);
}

TEST_F(ImagePlanTest, TwoImagesOfAFolderNeverBecomeOne) {
  const std::string jpeg("\xff\xd8\xff\xe0\0\x10JFIF", 10);
  WriteText(folder_ / "plain/photo", jpeg);
  WriteText(folder_ / "plain/photo.jpg", jpeg);
  for (const char* name : {"cat.jpg", "cat.png", "cat.jpg.png"})
    WriteText(folder_ / "named" / name, "");
  const auto refusal = [&](const std::string& input, v1::ImageFormat format) {
    const auto plan = PlanInputs({folder_ / input}, folder_ / "out", format);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(refusal("plain", v1::IMAGE_FORMAT_UNSPECIFIED),
              HasSubstr("would both become " + (folder_ / "out/photo.jpg").string()));
  EXPECT_THAT(refusal("named", v1::IMAGE_FORMAT_PNG),
              HasSubstr("would both become " + (folder_ / "out/cat.jpg.png").string()));
}

TEST_F(ImagePlanTest, AFolderKeepsItsTree) {
  for (const char* name : {"in/b.png", "in/a.JPG", "in/x/c.webp", "in/x/y/d.jpeg", "in/e.txt",
                           "in/.f.png", "in/.git/g.png", "in/png"}) {
    WriteText(folder_ / name, "");
  }
  for (const char* input : {"in", "in/"}) {
    EXPECT_THAT(
        Plan(input, "out"),
        ElementsAre(Pair("in/a.JPG", "out/a.JPG"), Pair("in/b.png", "out/b.png"),
                    Pair("in/x/c.webp", "out/x/c.webp"), Pair("in/x/y/d.jpeg", "out/x/y/d.jpeg")));
  }
}

// The first bytes of files, as far as they tell.
const std::string kJpegBytes = "\xff\xd8\xff\xe0";
const std::string kPngBytes = "\x89PNG\r\n\x1a\n";
const std::string kWebpBytes = "RIFFxxxxWEBPVP8 ";

TEST_F(ImagePlanTest, ContentDecidesWhatAnImageIs) {
  WriteText(folder_ / "in/a.jfif", kJpegBytes);
  WriteText(folder_ / "in/b.JPE", kJpegBytes);
  WriteText(folder_ / "in/c", kPngBytes);
  WriteText(folder_ / "in/d.tmp", kWebpBytes);
  WriteText(folder_ / "in/e.png", kJpegBytes);
  WriteText(folder_ / "in/f.png", "damaged");
  EXPECT_THAT(Plan("in", "out"),
              ElementsAre(Pair("in/a.jfif", "out/a.jpg"), Pair("in/b.JPE", "out/b.jpg"),
                          Pair("in/c", "out/c.png"), Pair("in/d.tmp", "out/d.webp"),
                          Pair("in/e.png", "out/e.png"), Pair("in/f.png", "out/f.png")));
  WriteText(folder_ / "in/a.jpg", kJpegBytes);
  EXPECT_THAT(Plan("in", "out"), testing::IsSupersetOf({Pair("in/a.jfif", "out/a.jfif.jpg"),
                                                        Pair("in/a.jpg", "out/a.jpg")}));
  const auto plan = PlanImages(folder_ / "in", folder_ / "out", v1::IMAGE_FORMAT_UNSPECIFIED);
  for (const ImageJob& job : plan->jobs) {
    EXPECT_NE(job.format, v1::IMAGE_FORMAT_UNSPECIFIED) << job.input;
  }
}

TEST_F(ImagePlanTest, NamesEveryFileThatItLeavesOut) {
  const std::pair<std::string, std::string> kFiles[] = {{"a.psd", {"8BPS\0\1", 6}},
                                                        {"b.cr3",
                                                         {"\0\0\0\x18"
                                                          "ftypcrx \0\0\0\1crx isom",
                                                          24}},
                                                        {"e.ico", {"\0\0\1\0\2\0", 6}},
                                                        {"f.jp2", {"\xff\x4f\xff\x51\0", 5}},
                                                        {"g.txt", "hello"},
                                                        {"h.html", "<html>"},
                                                        {"i", ""},
                                                        {"j.bin", "\x01\x02\x03"},
                                                        {".k.png", kPngBytes}};
  for (const auto& [name, bytes] : kFiles) WriteText(folder_ / ("in/" + name), bytes);
  WriteText(folder_ / "in/ours.png", kPngBytes);
  WriteText(folder_ / "in/.git/x.png", kPngBytes);
  WriteText(folder_ / "elsewhere/y.png", kPngBytes);
  std::filesystem::create_symlink(folder_ / "none.png", folder_ / "in/dangling.png");
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "in/linked");
  ASSERT_EQ(mkfifo((folder_ / "in/pipe.png").c_str(), 0600), 0);
  const auto plan = PlanImages(folder_ / "in", folder_ / "out", v1::IMAGE_FORMAT_UNSPECIFIED);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->jobs.size(), 1u);
  std::map<std::string, std::string> reasons;
  for (const LeftOut& left_out : plan->left_out) {
    EXPECT_TRUE(left_out.error.ok());
    reasons[std::filesystem::path(left_out.path).lexically_relative(folder_ / "in")] =
        left_out.reason;
  }
  const std::map<std::string, std::string> kExpected = {
      {".git", "hidden"},
      {".k.png", "hidden"},
      {"a.psd", "a Photoshop document, which is not read"},
      {"b.cr3", "a CR3 raw photograph, which is not read"},
      {"dangling.png", "a link to a file that is not there"},
      {"e.ico", "an ICO icon, which is not read"},
      {"f.jp2", "JPEG 2000, which is not read"},
      {"g.txt", "text, which is not read"},
      {"h.html", "an HTML page, which is not read"},
      {"i", "empty"},
      {"j.bin", "no image"},
      {"linked", "a link to a folder"},
      {"pipe.png", "not a file"}};
  EXPECT_EQ(reasons, kExpected);
}

TEST_F(ImagePlanTest, ImagesThatAreOnlyReadBecomePng) {
  WriteText(folder_ / "in/a.gif", "GIF89a");
  WriteText(folder_ / "in/b.bmp", {"BM\x36\x48\0\0\0\0\0\0\x36\0", 12});
  WriteText(folder_ / "in/c.avif", "an image by its name");
  WriteText(folder_ / "in/d", {"\0\0\0\x18"
                               "ftypavif\0\0\0\0mif1miaf",
                               24});
  WriteText(folder_ / "in/e.heic", {"\0\0\0\x18"
                                    "ftypheic\0\0\0\0mif1heic",
                                    24});
  EXPECT_THAT(Plan("in", "out"),
              ElementsAre(Pair("in/a.gif", "out/a.png"), Pair("in/b.bmp", "out/b.png"),
                          Pair("in/c.avif", "out/c.avif"), Pair("in/d", "out/d.avif"),
                          Pair("in/e.heic", "out/e.png")));
}

TEST_F(ImagePlanTest, FilesGoIntoAFolderAsThoseOfAFolderDo) {
  WriteText(folder_ / "in/a.gif", "GIF89a");
  WriteText(folder_ / "in/b.png", kPngBytes);
  WriteText(folder_ / "in/readme.txt", "hello");
  EXPECT_THAT(Plan("in/a.gif", "out/"), ElementsAre(Pair("in/a.gif", "out/a.png")));
  EXPECT_THAT(std::string(Error("in/readme.txt", "out/").message()),
              HasSubstr("readme.txt is left out: text, which is not read"));

  const auto plan = PlanInputs({folder_ / "in/*", folder_ / "missing.png"}, folder_ / "out/",
                               v1::IMAGE_FORMAT_UNSPECIFIED);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->jobs.size(), 2u);
  EXPECT_EQ(plan->jobs[0].output, folder_ / "out/a.png");
  EXPECT_EQ(plan->jobs[0].format, v1::IMAGE_FORMAT_PNG);
  EXPECT_EQ(plan->jobs[1].output, folder_ / "out/b.png");
  ASSERT_EQ(plan->left_out.size(), 2u);
  EXPECT_EQ(plan->left_out[0].path, folder_ / "in/readme.txt");
  EXPECT_TRUE(plan->left_out[0].error.ok()) << "no image: not a failure";
  EXPECT_EQ(plan->left_out[1].path, folder_ / "missing.png");
  EXPECT_EQ(plan->left_out[1].error.code(), absl::StatusCode::kNotFound);

  const auto none = PlanInputs({folder_ / "missing.png", folder_ / "in/readme.txt"},
                               folder_ / "out/", v1::IMAGE_FORMAT_UNSPECIFIED);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ImagePlanTest, ANameThatTellsAnotherFormatIsWarnedAbout) {
  WriteText(folder_ / "a.png", "");
  const auto warning = [&](const std::string& output, v1::ImageFormat format) {
    return PlanImages(folder_ / "a.png", folder_ / output, format)->warning;
  };
  EXPECT_THAT(warning("o.png", v1::IMAGE_FORMAT_JPEG),
              testing::AllOf(HasSubstr("o.png is written as jpeg"), HasSubstr("named .png")));
  EXPECT_THAT(warning("o.JPG", v1::IMAGE_FORMAT_WEBP), HasSubstr("written as webp"));
  EXPECT_EQ(warning("o.jpeg", v1::IMAGE_FORMAT_JPEG), "");
  EXPECT_EQ(warning("o.jpg", v1::IMAGE_FORMAT_UNSPECIFIED), "");
  EXPECT_EQ(warning("o.out", v1::IMAGE_FORMAT_JPEG), "");
  EXPECT_EQ(warning("new/", v1::IMAGE_FORMAT_JPEG), "") << "it is named a.jpg there";
}

TEST_F(ImagePlanTest, AFormatReplacesExtensionsWithoutMixingImagesUp) {
  for (const char* name : {"in/a.png", "in/a.jpeg", "in/b.png", "in/c.JPEG"}) {
    WriteText(folder_ / name, "");
  }
  EXPECT_THAT(Plan("in", "out", v1::IMAGE_FORMAT_WEBP),
              ElementsAre(Pair("in/a.jpeg", "out/a.jpeg.webp"), Pair("in/a.png", "out/a.png.webp"),
                          Pair("in/b.png", "out/b.webp"), Pair("in/c.JPEG", "out/c.webp")));
  EXPECT_THAT(Plan("in", "out", v1::IMAGE_FORMAT_JPEG),
              ElementsAre(Pair("in/a.jpeg", "out/a.jpeg"), Pair("in/a.png", "out/a.jpg"),
                          Pair("in/b.png", "out/b.jpg"), Pair("in/c.JPEG", "out/c.JPEG")));
}

TEST_F(ImagePlanTest, AnOutputFolderWithinTheInputIsLeftOut) {
  WriteText(folder_ / "in/a.png", "");
  WriteText(folder_ / "in/out/a.png", "");
  EXPECT_THAT(Plan("in", "in/out"), ElementsAre(Pair("in/a.png", "in/out/a.png")));
}

TEST_F(ImagePlanTest, RefusesToReplaceItsInput) {
  WriteText(folder_ / "a.png", "");
  WriteText(folder_ / "in/b.png", "");
  std::filesystem::create_symlink(folder_ / "a.png", folder_ / "link.png");
  std::filesystem::create_hard_link(folder_ / "a.png", folder_ / "hard.png");
  for (const char* output : {"a.png", "link.png", "hard.png", "in/../a.png", "."}) {
    const absl::Status status = Error("a.png", output);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << output;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are the same"));
  }
  EXPECT_EQ(Error("in", "in").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Error("in", "a.png").message()), HasSubstr("must be one too"));
  EXPECT_EQ(Error("none", "b.png").code(), absl::StatusCode::kNotFound);
}

TEST(ProgressTest, ShowsTilesAndTime) {
  const BatchProgress batch{.partial_files = 0.25, .elapsed = absl::Seconds(10)};
  const ImageProgress image{.name = "cat.png", .tiles_done = 12, .tiles = 48};
  EXPECT_EQ(RenderProgress(batch, image, 200),
            "[######------------------]  25 %  tile 12/48  ETA 0:30  cat.png");
}

TEST(ProgressTest, ShowsTheUploadBeforeTheFirstTile) {
  ImageProgress image{.name = "cat.png", .sent_bytes = 1'250'000, .total_bytes = 5'000'000};
  EXPECT_EQ(RenderProgress({}, image, 200),
            "[------------------------]   0 %  sent 1.2/5.0 MB  cat.png");
  image.total_bytes = 0;
  EXPECT_THAT(RenderProgress({}, image, 200), HasSubstr("sent 1.2 MB"));
}

TEST(ProgressTest, ShowsFilesOfAFolder) {
  const BatchProgress batch{
      .files_done = 30, .files = 40, .partial_files = 0.5, .elapsed = absl::Seconds(61)};
  const std::string line =
      RenderProgress(batch, {.name = "x.png", .tiles_done = 1, .tiles = 2}, 200);
  EXPECT_THAT(line, HasSubstr(" 76 %"));
  EXPECT_THAT(line, HasSubstr("file 30/40"));
  EXPECT_THAT(line, HasSubstr("ETA 0:19"));
}

TEST(ProgressTest, NeverLeavesTheLine) {
  const BatchProgress batch{.files_done = 3, .files = 2};  // More than all.
  const ImageProgress image{.name = std::string(500, 'x'), .tiles_done = 9, .tiles = 4};
  for (int columns = 0; columns < 120; ++columns) {
    EXPECT_LE(RenderProgress(batch, image, columns).size(), static_cast<size_t>(columns));
  }
  EXPECT_THAT(RenderProgress(batch, image, 80), HasSubstr("[########################] 100 %"));
}

TEST(ProgressTest, FormatsTimes) {
  EXPECT_EQ(FormatEta(absl::ZeroDuration()), "0:00");
  EXPECT_EQ(FormatEta(absl::Seconds(59.6)), "1:00");
  EXPECT_EQ(FormatEta(absl::Seconds(754)), "12:34");
  EXPECT_EQ(FormatEta(absl::Hours(3) + absl::Minutes(5)), "3:05:00");
}

TEST(ProgressBarTest, WritesNothingUnlessEnabled) {
  for (const bool enabled : {false, true}) {
    std::FILE* file = std::tmpfile();
    {
      ProgressBar bar(file, enabled, 1);
      bar.Start(0, "cat.png", 10);
      bar.Tiles(0, 1, 2);
      bar.Print("a line");
      bar.Finish(0);
    }
    std::rewind(file);
    std::string text(1000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    if (enabled) {
      EXPECT_THAT(text, HasSubstr("cat.png\x1b[K\r\x1b[Ka line\n"));
    } else {
      EXPECT_EQ(text, "a line\n");
    }
  }
}

TEST(PercentileTest, IsTheNearestRank) {
  EXPECT_EQ(Percentile({}, 50), 0);
  const std::vector<double> one = {7};
  for (const double percent : {0.0, 50.0, 100.0}) EXPECT_EQ(Percentile(one, percent), 7);
  const std::vector<double> five = {15, 20, 35, 40, 50};
  EXPECT_EQ(Percentile(five, 5), 15);
  EXPECT_EQ(Percentile(five, 30), 20);
  EXPECT_EQ(Percentile(five, 40), 20);
  EXPECT_EQ(Percentile(five, 50), 35);
  EXPECT_EQ(Percentile(five, 100), 50);
}

TEST(PercentileTest, OfAHundredIsItsPlace) {
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(Percentile(values, i), i);
}

TEST(ApiKeyTest, ComesFromTheFileOrTheEnvironment) {
  const TempFolder folder;
  const std::string file = folder / "key";
  WriteText(file, "from-file \nmore\n");
  unsetenv("UPSCALE_API_KEY");
  EXPECT_EQ(*FindApiKey(""), "");
  setenv("UPSCALE_API_KEY", "from-environment", 1);
  EXPECT_EQ(*FindApiKey(""), "from-environment");
  EXPECT_EQ(*FindApiKey(file), "from-file");
  WriteText(file, std::string(8192, 't'));
  EXPECT_EQ(FindApiKey(file)->size(), 8192u) << "a token";
  setenv("UPSCALE_API_KEY", "two words", 1);
  EXPECT_EQ(FindApiKey("").status(), absl::InvalidArgumentError("UPSCALE_API_KEY holds no key"));
  unsetenv("UPSCALE_API_KEY");
  EXPECT_TRUE(absl::IsNotFound(FindApiKey(folder / "none").status()));
  EXPECT_TRUE(absl::IsNotFound(FindApiKey(folder.path()).status()));
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("a\rb"), std::string(8193, 'k')}) {
    WriteText(file, text);
    EXPECT_EQ(FindApiKey(file).status(),
              absl::InvalidArgumentError(absl::StrCat("--api-key-file ", file, " holds no key")));
  }
}

TEST(ApiKeyTest, WarnsBeforeItGoesUnencryptedToOthers) {
  for (const char* server :
       {"127.0.0.1:8001", "localhost", "[::1]:8001", "unix:/run/x.sock", "127.0.0.1:1,127.0.0.1:2",
        "http://LocalHost:8000/prefix", "127.9.8.7", "https://example.org"}) {
    EXPECT_EQ(OpenKeyWarning(server, /*tls=*/false), "") << server;
  }
  for (const char* server :
       {"example.org", "10.0.0.1:8001", "127.0.0.1:1, example.org:1", "http://example.org/prefix",
        "HTTP://10.0.0.1", "127.example.org:8001", "127.0.0.1.example.org", "[::2]"}) {
    EXPECT_THAT(OpenKeyWarning(server, /*tls=*/false), HasSubstr("unencrypted")) << server;
    EXPECT_EQ(OpenKeyWarning(server, /*tls=*/true), "") << server;
  }
}

TEST(ErrorLineTest, BlamesThePortForAnswersOnly) {
  const absl::Status interlaced = absl::UnimplementedError("the film is interlaced");
  EXPECT_EQ(ErrorLine(interlaced), "the film is interlaced");
  EXPECT_THAT(ErrorLine(WithOrigin(interlaced, ErrorOrigin::kServer)), HasSubstr("right port"));
}

TEST(ErrorLineTest, NamesTheRightUrlForAPort) {
  const auto line = [](absl::string_view message) {
    return ErrorLine(WithOrigin(absl::UnavailableError(message), ErrorOrigin::kConnection));
  };
  EXPECT_THAT(line("Trying to connect an http1.x server"), HasSubstr("--server http://HOST:PORT"));
  EXPECT_THAT(line("SSL routines::wrong version number"), HasSubstr("begins with http://"));
}

TEST(ErrorLineTest, SaysWhereKeysComeFrom) {
  EXPECT_THAT(ErrorLine(WithDetails(absl::UnauthenticatedError("no"),
                                    {.origin = ErrorOrigin::kServer, .reason = "UNAUTHENTICATED"})),
              HasSubstr("[UNAUTHENTICATED]; the server wants a key, see --api-key-file"));
  EXPECT_THAT(ErrorLine(WithOrigin(absl::UnauthenticatedError("a proxy's"), ErrorOrigin::kServer)),
              HasSubstr("see --api-key-file"));
  EXPECT_THAT(
      ErrorLine(WithDetails(absl::PermissionDeniedError("lacks"),
                            {.origin = ErrorOrigin::kServer, .reason = "PERMISSION_DENIED"})),
      HasSubstr("it takes another key"));
  EXPECT_EQ(ErrorLine(WithDetails(absl::ResourceExhaustedError("the image would take 5s"),
                                  {.origin = ErrorOrigin::kServer,
                                   .reason = "DEADLINE_INFEASIBLE",
                                   .retry_delay = absl::Seconds(2)})),
            "the image would take 5s [DEADLINE_INFEASIBLE]; the server asks to wait 2 s; give it "
            "more time with --timeout, or try again later");
}

TEST(LoadStatsTest, AddsUp) {
  LoadStats a, b;
  a.AddSuccess(absl::Milliseconds(30), 1'000'000);
  a.AddSuccess(absl::Milliseconds(10), 1'000'000);
  b.AddSuccess(absl::Milliseconds(20), 2'000'000);
  b.AddError(absl::UnavailableError("x"));
  b.AddError(absl::UnavailableError("y"));
  a.Add(b);
  const nlohmann::json json = a.ToJson(absl::Seconds(2));
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["requests_per_s"], 1.5);
  EXPECT_EQ(json["source_mpx_per_s"], 2.0);
  EXPECT_EQ(json["latency_ms"]["mean"], 20.0);
  EXPECT_EQ(json["latency_ms"]["p50"], 20.0);
  EXPECT_EQ(json["latency_ms"]["max"], 30.0);
  EXPECT_EQ(json["errors"]["UNAVAILABLE"], 2);
  EXPECT_EQ(a.errors(), 2);
  EXPECT_EQ(a.sample_error().message(), "y");
  EXPECT_THAT(a.ToText(absl::Seconds(2)), HasSubstr("1.50 requests/s, 2.000 source Mpx/s"));
}

TEST(LoadStatsTest, OfNothingIsZero) {
  const nlohmann::json json = LoadStats().ToJson(absl::Seconds(1));
  EXPECT_EQ(json["latency_ms"]["p99"], 0);
  EXPECT_THAT(LoadStats().ToText(absl::Seconds(1)), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace upscaled::client
