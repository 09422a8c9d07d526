#include "client/video/film_facts.h"

#include <string>

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
  return absl::StrCat("color_space=", color_space, "\nr_frame_rate=", rate, "\nstart_time=", start,
                      "\n");
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
  EXPECT_EQ(ParseFilmFacts(Facts("25/1", "unknown", "N/A"), Times(9, 25))->matrix, "");
}

// Frames before a cut that only an edit list knows.
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
