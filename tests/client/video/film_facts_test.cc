#include "client/video/film_facts.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::client {
namespace {

using ::testing::HasSubstr;

std::string Facts(const std::string& rate, const std::string& color_space = "unknown",
                  const std::string& start = "0.000000") {
  return absl::StrCat(
      "width=640\nheight=480\npix_fmt=yuv420p\nfield_order=progressive\ncolor_space=", color_space,
      "\nr_frame_rate=", rate, "\nstart_time=", start, "\n");
}

// The same with another value of `name`.
std::string FactsWith(const std::string& name, const std::string& value) {
  // The first line of a name holds.
  return absl::StrCat(name, "=", value, "\n", Facts("25/1"));
}

// Times of frames in milliseconds, as Matroska has them, in the order of decoding.
std::string Times(int frames, double rate, double start_s = 0) {
  std::string times;
  for (int i = 0; i < frames; ++i) {
    const int shown = i % 3 == 1 ? i + 1 : i % 3 == 2 ? i - 1 : i;
    absl::StrAppendFormat(&times, "%.3f\n", start_s + shown / rate);
  }
  return times;
}

TEST(FilmFactsTest, CountsFramesOfAnEvenRate) {
  const auto film = ParseFilmFacts(Facts("24000/1001", "bt709"), Times(3000, 24000.0 / 1001));
  ASSERT_TRUE(film.ok()) << film.status();
  EXPECT_EQ(film->frames, 3000);
  EXPECT_EQ(film->rate, 24000);
  EXPECT_EQ(film->rate_by, 1001);
  EXPECT_EQ(film->start_s, 0);
  EXPECT_EQ(film->matrix, "709");
}

TEST(FilmFactsTest, StartsAfterTheFile) {
  const auto film = ParseFilmFacts(Facts("25/1", "smpte170m", "1.400000"), Times(9, 25, 1.48));
  ASSERT_TRUE(film.ok()) << film.status();
  EXPECT_NEAR(film->start_s, 0.08, 1e-9);
  EXPECT_EQ(film->matrix, "601");
  EXPECT_EQ(ParseFilmFacts(Facts("25/1", "bt2020nc", "N/A"), Times(9, 25))->matrix, "2020");
}

TEST(FilmFactsTest, TheHeightTellsAMatrixThatTheFileDoesNot) {
  for (const auto& [height, matrix] : {std::pair{"480", "601"}, {"576", "601"}, {"578", "709"}}) {
    const auto film = ParseFilmFacts(FactsWith("height", height), Times(9, 25));
    ASSERT_TRUE(film.ok()) << film.status();
    EXPECT_EQ(film->matrix, matrix) << height;
    EXPECT_EQ(film->primaries + film->transfer + film->range, "");
  }
}

TEST(FilmFactsTest, TellsTheColoursOfAFilm) {
  const auto film = ParseFilmFacts(
      absl::StrCat("color_primaries=bt2020\ncolor_transfer=smpte2084\ncolor_range=tv\n",
                   Facts("25/1", "bt2020nc")),
      Times(9, 25));
  ASSERT_TRUE(film.ok()) << film.status();
  EXPECT_EQ(film->matrix, "2020");
  EXPECT_EQ(film->primaries, "bt2020");
  EXPECT_EQ(film->transfer, "smpte2084");
  EXPECT_EQ(film->range, "tv");
}

TEST(FilmFactsTest, NamesSamplesThatAreNotRead) {
  for (const char* const read : {"yuv420p", "yuvj422p", "yuv444p10le", "gray", "gray12le",
                                 "yuv420p9le", "yuv422p14le", "yuv444p16le"}) {
    const auto film = ParseFilmFacts(FactsWith("pix_fmt", read), Times(9, 25));
    ASSERT_TRUE(film.ok()) << read << " " << film.status();
    EXPECT_EQ(film->pixel_format, read);
  }
  for (const char* const other : {"gbrp", "bgra", "nv12", "p010le", "yuva420p", "yuv411p",
                                  "yuv440p", "pal8", "gray14le", "yuv420p10be", "unknown"}) {
    const auto film = ParseFilmFacts(FactsWith("pix_fmt", other), Times(9, 25));
    EXPECT_TRUE(absl::IsInvalidArgument(film.status())) << other << " " << film.status();
  }
  for (const char* const other : {"smpte240m", "ycgco", "bt2020c", "fcc", "gbr"}) {
    const auto film = ParseFilmFacts(FactsWith("color_space", other), Times(9, 25));
    EXPECT_TRUE(absl::IsInvalidArgument(film.status())) << other << " " << film.status();
    EXPECT_THAT(std::string(film.status().message()), HasSubstr(other));
  }
}

TEST(FilmFactsTest, RefusesInterlacedFilms) {
  for (const char* const order : {"tt", "bb", "tb", "bt"}) {
    const auto film = ParseFilmFacts(FactsWith("field_order", order), Times(9, 25));
    EXPECT_TRUE(absl::IsInvalidArgument(film.status())) << order << " " << film.status();
    EXPECT_THAT(std::string(film.status().message()), HasSubstr("interlaced"));
  }
  EXPECT_TRUE(ParseFilmFacts(FactsWith("field_order", "unknown"), Times(9, 25)).ok());
}

// Frames before a cut known to an edit list only.
TEST(FilmFactsTest, CountsNoFrameThatIsNotShown) {
  const auto film =
      ParseFilmFacts(Facts("25/1"), "-0.080,KD_\n-0.040,_D_\n0.000,___\n0.040,K__,side\n");
  ASSERT_TRUE(film.ok()) << film.status();
  EXPECT_EQ(film->frames, 2);
  EXPECT_EQ(film->start_s, 0);
}

TEST(FilmFactsTest, NamesTheFrameThatIsNotEven) {
  std::string times = Times(6, 25);
  absl::StrAppend(&times, "0.280\n");  // without the one of 0.240
  const auto film = ParseFilmFacts(Facts("25/1"), times);
  EXPECT_TRUE(absl::IsInvalidArgument(film.status())) << film.status();
  EXPECT_THAT(std::string(film.status().message()), HasSubstr("frame 6 comes at 0.280 s"));
}

TEST(FilmFactsTest, RefusesOtherFiles) {
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFilmFacts(Facts("25/1"), "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFilmFacts("", Times(9, 25)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFilmFacts(Facts("0/0"), Times(9, 25)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFilmFacts(Facts("25/1"), "N/A\n").status()));
}

}  // namespace
}  // namespace upscaled::client
