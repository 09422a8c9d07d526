#include "server/admission/limits.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(LimitsTest, TheLimitItselfIsAllowed) {
  Limits limits;
  limits.max_result_pixels = limits.max_tile_pixels = 35;
  limits.max_source_bytes = limits.max_unary_bytes = 10;
  EXPECT_TRUE(CheckResultSize(limits, {5, 7}).ok());
  EXPECT_TRUE(CheckTileSize(limits, {5, 7}).ok());
  EXPECT_TRUE(CheckSourceBytes(limits, 10).ok());
  EXPECT_TRUE(CheckUnaryBytes(limits, 10).ok());
}

TEST(LimitsTest, RefusalsNameValueAndLimit) {
  Limits limits;
  limits.max_result_pixels = 200;
  limits.max_tile_pixels = 300;
  limits.max_source_bytes = 400;
  limits.max_unary_bytes = 500;
  const absl::Status status = CheckResultSize(limits, {67, 3});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded);
  EXPECT_EQ(status.message(),
            "the result of 67x3 has 201 pixels, more than the limit of 200 (max-result-pixels)");
  EXPECT_THAT(MetadataOf(status),
              UnorderedElementsAre(Pair("limit", "max-result-pixels"), Pair("value", "201"),
                                   Pair("maximum", "200")));
  EXPECT_EQ(CheckTileSize(limits, {7, 43}).message(),
            "the tile of 7x43 has 301 pixels, more than the limit of 300 (max-tile-pixels)");
  EXPECT_EQ(CheckSourceBytes(limits, 401).message(),
            "the source file has 401 bytes, more than the limit of 400 (max-source-bytes)");
  EXPECT_EQ(
      CheckUnaryBytes(limits, 501).message(),
      "the image in a unary call has 501 bytes, more than the limit of 500 (max-unary-bytes)");
}

TEST(LimitsTest, HugeSizesDoNotOverflow) {
  const int most = std::numeric_limits<int>::max();
  EXPECT_EQ(ReasonOf(CheckResultSize(Limits(), {most, most})), ErrorReason::kLimitExceeded);
}

TEST(LimitsTest, AnySentenceNamesTheFlag) {
  const absl::Status status = LimitExceeded("far too many; the limit is 7", 9, 7, "max-jpeg-scans");
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded);
  EXPECT_EQ(status.message(), "far too many; the limit is 7 (max-jpeg-scans)");
  EXPECT_THAT(MetadataOf(status), UnorderedElementsAre(Pair("limit", "max-jpeg-scans"),
                                                       Pair("value", "9"), Pair("maximum", "7")));
}

}  // namespace
}  // namespace upscaled::server
