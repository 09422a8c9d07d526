// Conditional requests and parts of results.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rest/answer.h"
#include "server/rest/byte_range.h"
#include "server/rest/entity_tags.h"
#include "server/rest/upload.h"
#include "tests/server/rest/fake_exchange.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

TEST(ParseTagsTest, ReadsNames) {
  EXPECT_THAT(ParseTags("\"a\", W/\"b\" ,\"c"), ElementsAre("a", "b"));
  EXPECT_THAT(ParseTags("*"), ElementsAre("*"));
  EXPECT_THAT(ParseTags(""), IsEmpty());
  EXPECT_THAT(ParseTags("a, \", \"\""), ElementsAre(""));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "\"x\",";
  EXPECT_EQ(ParseTags(many).size(), 16u);
}

TEST(ParseRangeTest, ReadsOnePart) {
  EXPECT_EQ(ParseRange("bytes=0-9", 100), (ByteRange{0, 10}));
  EXPECT_EQ(ParseRange("bytes=90-", 100), (ByteRange{90, 100}));
  EXPECT_EQ(ParseRange("Bytes=90-1000", 100), (ByteRange{90, 100}));
  EXPECT_EQ(ParseRange("bytes=-10", 100), (ByteRange{90, 100}));
  EXPECT_EQ(ParseRange("bytes=-1000", 100), (ByteRange{0, 100}));
  EXPECT_EQ(ParseRange("bytes=99-99", 100), (ByteRange{99, 100}));
}

TEST(ParseRangeTest, KnowsPartsThatAreNotThere) {
  EXPECT_TRUE(ParseRange("bytes=100-", 100)->empty());
  EXPECT_TRUE(ParseRange("bytes=-0", 100)->empty());
  EXPECT_TRUE(ParseRange("bytes=0-", 0)->empty());
}

TEST(ParseRangeTest, IgnoresWhatItMustAndMay) {
  for (const char* field :
       {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=0-1,5-6", "lines=1-2",
        "bytes=--1", "bytes=+1-2", "bytes=99999999999999999999-", "bytes=1-99999999999999999999"}) {
    EXPECT_EQ(ParseRange(field, 100), std::nullopt) << field;
  }
}

std::string FieldOf(const std::vector<HttpField>& fields, std::string_view name) {
  for (const HttpField& field : fields) {
    if (field.name == name) return field.value;
  }
  return "";
}

TEST(ImageResponseTest, IsPublicForAsLongAsItsUrlIsSigned) {
  pb::UpscaleImageHeader header;
  EXPECT_EQ(FieldOf(ImageResponse(header, {}, "", {}, absl::Seconds(90.7)).fields, "Cache-Control"),
            "public, max-age=90");
  header.set_etag("x");
  header.set_not_modified(true);
  const HttpResponse response = ImageResponse(header, {}, "", {}, absl::Hours(1));
  EXPECT_EQ(response.status, 304);
  EXPECT_EQ(FieldOf(response.fields, "Cache-Control"), "public, max-age=3600");
  EXPECT_EQ(FieldOf(response.fields, "Vary"), "Accept");
  EXPECT_EQ(FieldOf(response.fields, "ETag"), "\"x\"");
}

TEST(ImageResponseTest, HasTheResultsTagOnceItIsKnown) {
  pb::UpscaleImageHeader header;
  EXPECT_EQ(FieldOf(ImageResponse(header, {}, "", {}).fields, "Cache-Control"), "no-store");
  EXPECT_THAT(SummaryFieldNames(header), Contains("ETag"));
  header.set_etag("abc");
  HttpResponse response = ImageResponse(header, {}, "", {});
  EXPECT_EQ(FieldOf(response.fields, "ETag"), "\"abc\"");
  EXPECT_EQ(FieldOf(response.fields, "Cache-Control"), "no-cache");
  EXPECT_THAT(SummaryFieldNames(header), Not(Contains("ETag")));
  header.set_not_modified(true);
  EXPECT_EQ(ImageResponse(header, {}, "", {}).status, 304);
  pb::UpscaleSummary summary;
  summary.set_etag("def");
  EXPECT_EQ(FieldOf(SummaryFields(summary, "{}"), "ETag"), "\"def\"");
}

TEST(UploadTest, ReadsTheDigestThatTheClientTells) {
  const auto digest_of = [](const std::string& field) {
    FakeExchange exchange({.fields = {{"Content-Digest", field}}}, std::make_shared<FakeClient>());
    AdmissionController admission({}, 1 << 20, Clock::Real());
    RequestRecord record;
    const Payer payer;
    AdmissionController::CallSlot slot;
    UpscaleParameters parameters;
    return Upload(exchange, admission, slot, payer, record, parameters).digest();
  };
  const auto digest =
      digest_of("md5=:AA==:, sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:");
  ASSERT_TRUE(digest.has_value());
  EXPECT_EQ(ToHex(*digest), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
  for (const char* field : {"", "sha-256=:AA==:", "sha-256=:!!:", "sha-512=:AA==:"}) {
    EXPECT_FALSE(digest_of(field).has_value()) << field;
  }
}

}  // namespace
}  // namespace upscaled::server
