#include "client/worker/film_part_runner.h"

#include <fcntl.h>

#include <filesystem>
#include <memory>
#include <string>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "client/upscale_client.h"
#include "client/worker/film_check.h"
#include "engine/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/environment_variable.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::HasSubstr;

// ffmpeg says INVALID_ARGUMENT of all of its failures, and the parts of the whole film would be
// lost with the job.
TEST(FilmPartRunnerTest, AFailureToJoinMayPass) {
  const TempFolder folder;
  WriteText(folder / "bin/ffmpeg", "#!/bin/sh\necho No space left on device >&2\nexit 1\n");
  WriteText(folder / "bin/ffprobe", "#!/bin/sh\n");  // the source has no other streams
  for (const char* const program : {"bin/ffmpeg", "bin/ffprobe"})
    std::filesystem::permissions(folder / program, std::filesystem::perms::owner_all);
  const EnvironmentVariable path("PATH", (folder / "bin").c_str());
  const std::string output = folder / "film.mkv";
  const server::FilmPart part{.id = "a-film",
                              .frames = 10,
                              .part_frames = 10,
                              .rate = 25,
                              .rate_by = 1,
                              .matrix = "709",
                              .codec = "ffv1"};
  const std::filesystem::path parts = server::FilmFolder(output, part);
  WriteText(parts / "part-000000.nut", "computed already");
  WriteText(folder / "source", "a film");
  const UniqueFd source(open((folder / "source").c_str(), O_RDONLY | O_CLOEXEC));
  const auto service = *UpscaleClient::Create({.channel = {.endpoints = {"127.0.0.1:1"}}});
  const absl::Status joined =
      RunFilmPart(*service, {}, part, source.get(), output, [](int64_t) {}, {});
  EXPECT_TRUE(absl::IsUnavailable(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()), HasSubstr("No space left on device"));
  EXPECT_TRUE(std::filesystem::exists(parts / "part-000000.nut"));
}

TEST(FilmCheckTest, KnowsResultsWithAnOddSide) {
  const auto may_be_odd = [](int width_px, int height_px, const char* options) {
    v1::UpscaleOptions parsed;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(options, &parsed)) << options;
    return MayHaveOddSide(parsed, {.width_px = width_px, .height_px = height_px},
                          HalvedSides::kBoth);
  };
  EXPECT_FALSE(may_be_odd(640, 360, ""));
  EXPECT_FALSE(may_be_odd(640, 360, "scale: 3"));
  EXPECT_FALSE(may_be_odd(640, 360, "scale: 1.5"));
  EXPECT_FALSE(may_be_odd(641, 361, "scale: 2"));
  EXPECT_FALSE(may_be_odd(641, 361, "size { width_px: 20 height_px: 10 fit: FIT_COVER }"));
  EXPECT_TRUE(may_be_odd(641, 360, ""));
  EXPECT_TRUE(may_be_odd(640, 361, "scale: 3"));
  EXPECT_TRUE(may_be_odd(642, 360, "scale: 1.5"));
  EXPECT_TRUE(may_be_odd(640, 360, "size { width_px: 20 height_px: 11 fit: FIT_STRETCH }"));
  EXPECT_TRUE(may_be_odd(640, 360, "size { width_px: 20 height_px: 10 }")) << "contain";
  for (const char* const side : {"width_px", "height_px", "short_side_px", "long_side_px"})
    EXPECT_TRUE(may_be_odd(640, 360, absl::StrCat("size { ", side, ": 100 }").c_str())) << side;
  EXPECT_TRUE(may_be_odd(640, 360, "max_pixels: 10000"));
  EXPECT_TRUE(may_be_odd(640, 360, "no_enlarge: true"));
}

// 4:2:2 has a row of chroma for each row.
TEST(FilmCheckTest, KnowsSidesThatChromaHasHalfOf) {
  const std::pair<const char*, HalvedSides> kFormats[] = {
      {"yuv420p", HalvedSides::kBoth},      {"yuvj420p", HalvedSides::kBoth},
      {"yuv420p10le", HalvedSides::kBoth},  {"yuv422p", HalvedSides::kWidth},
      {"yuv422p12le", HalvedSides::kWidth}, {"yuv444p", HalvedSides::kNone},
      {"gray", HalvedSides::kNone}};
  for (const auto& [format, sides] : kFormats) {
    EXPECT_EQ(HalvedSidesOf(format), sides) << format;
    const auto may_be_odd = [sides = sides](int width_px, int height_px, v1::UpscaleOptions with) {
      return MayHaveOddSide(with, {.width_px = width_px, .height_px = height_px}, sides);
    };
    v1::UpscaleOptions tall, wide, open;
    tall.mutable_size()->set_fit(v1::FIT_STRETCH);
    tall.mutable_size()->set_width_px(20);
    tall.mutable_size()->set_height_px(11);
    wide = tall;
    wide.mutable_size()->set_width_px(21);
    open.set_max_pixels(1000);
    const bool any = sides != HalvedSides::kNone;
    EXPECT_EQ(may_be_odd(640, 361, {}), sides == HalvedSides::kBoth) << format;
    EXPECT_EQ(may_be_odd(640, 360, tall), sides == HalvedSides::kBoth) << format;
    EXPECT_EQ(may_be_odd(641, 360, {}), any) << format;
    EXPECT_EQ(may_be_odd(640, 360, wide), any) << format;
    EXPECT_EQ(may_be_odd(640, 360, open), any) << format;
  }
}

}  // namespace
}  // namespace upscaled::client
