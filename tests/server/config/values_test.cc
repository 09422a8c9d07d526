#include "server/config/values.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(ValuesTest, ReadsBytes) {
  EXPECT_EQ(*ParseBytes("1"), 1);
  EXPECT_EQ(*ParseBytes("64MiB"), int64_t{64} << 20);
  EXPECT_EQ(*ParseBytes("64mib"), int64_t{64} << 20);
  EXPECT_EQ(*ParseBytes("1.5G"), int64_t{3} << 29);
  for (const char* bad : {"", "0", "-1", "MiB", "1XB", "1 0", "1e40", "nan", "inf"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ValuesTest, ReadsPixels) {
  EXPECT_EQ(*ParsePixels("100MP"), 100'000'000);
  EXPECT_EQ(*ParsePixels("0.5mp"), 500'000);
  EXPECT_EQ(*ParsePixels("1.6GP"), 1'600'000'000);
  for (const char* bad : {"", "0MP", "-5MP", "100M"}) EXPECT_FALSE(ParsePixels(bad).ok()) << bad;
}

TEST(ValuesTest, PrintsWhatItReads) {
  for (const int64_t bytes : {int64_t{1}, int64_t{1023}, int64_t{1} << 20, int64_t{3} << 40}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
  }
  EXPECT_EQ(FormatBytes(int64_t{64} << 20), "64MiB");
  for (const int64_t pixels : {int64_t{999'999}, int64_t{100'000'000}, int64_t{2'000'000'000}}) {
    EXPECT_EQ(*ParsePixels(FormatPixels(pixels)), pixels);
  }
  EXPECT_EQ(FormatPixels(1'600'000'000), "1600MP");
}

TEST(ValuesTest, ReadsTimeouts) {
  EXPECT_EQ(*ParseTimeout("500ms"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseTimeout("inf"), absl::InfiniteDuration());
  for (const char* bad : {"", "5", "0s", "-1s", "soon"})
    EXPECT_FALSE(ParseTimeout(bad).ok()) << bad;
}

TEST(ValuesTest, ReadsDelays) {
  EXPECT_EQ(*ParseDelay("0"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDelay("0s"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDelay("5s"), absl::Seconds(5));
  for (const char* bad : {"", "5", "inf", "-1s", "soon"}) EXPECT_FALSE(ParseDelay(bad).ok()) << bad;
}

TEST(ValuesTest, ReadsIntegersWithinBounds) {
  EXPECT_EQ(*ParseInteger("7", 0, 7), 7);
  const absl::Status status = ParseInteger("8", 0, 7).status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("from 0 to 7"));
  EXPECT_FALSE(ParseInteger("1.5", 0, 7).ok());
}

}  // namespace
}  // namespace upscaled::server
