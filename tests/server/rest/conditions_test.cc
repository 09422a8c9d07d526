// Conditional requests, parts of results, and digests of bodies.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rest/answer.h"
#include "server/rest/byte_range.h"
#include "server/rest/content_digest.h"
#include "server/rest/entity_tags.h"
#include "server/rest/upload.h"
#include "tests/server/rest/fake_exchange.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
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
  EXPECT_EQ(FieldOf(SummaryFields(summary, "{}", {}), "ETag"), "\"def\"");
}

constexpr char kTest[] = "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:";
constexpr char kOther[] = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";

TEST(ContentDigestTest, ReadsTheDigestThatTheClientTells) {
  const std::string more[] = {std::string(kTest), absl::StrCat("md5=:AA==:, ", kTest),
                              absl::StrCat(kTest, ";a;b=1;c=\"x\" , sha-512=:AA==:"),
                              absl::StrCat(kOther, ",", kTest)};  // the last one counts
  for (const std::string& text : more) {
    for (const char* field : {"Content-Digest", "content-digest", "Repr-Digest"}) {
      const auto digest = ReadContentDigest({.fields = {{field, text}}});
      ASSERT_TRUE(digest.ok() && digest->has_value()) << text << " " << digest.status();
      EXPECT_EQ(ToHex(**digest),
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
    }
  }
  const auto lines =
      ReadContentDigest({.fields = {{"Content-Digest", kOther}, {"Content-Digest", kTest}}});
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(*lines, *ReadContentDigest({.fields = {{"Content-Digest", kTest}}}));
  for (const HttpField& none : {HttpField{"Content-Digest", ""},
                                {"Content-Digest", " "},
                                {"Want-Content-Digest", "sha-256=1"},
                                {"Trailer", "X-Time"}}) {
    const auto digest = ReadContentDigest({.fields = {none}});
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_FALSE(digest->has_value()) << none.name;
  }
}

// All of these were ignored in silence.
TEST(ContentDigestTest, RefusesEveryDigestThatIsNotCompared) {
  const std::string quoted = absl::StrCat("sha-256=\"", std::string(kTest).substr(9, 44), "\"");
  const std::vector<HttpField> refused = {{"Content-Digest", "sha-512=:AA==:"},
                                          {"Content-Digest", "md5=:AA==:"},
                                          {"Content-Digest", "sha-256=xyz"},
                                          {"Content-Digest", "sha-256=:AA==:"},
                                          {"Content-Digest", "sha-256=:!!:"},
                                          {"Content-Digest", "sha-256"},
                                          {"Content-Digest", "xyz"},
                                          {"Content-Digest", "SHA-256=:AA==:"},
                                          {"Content-Digest", quoted},
                                          {"Content-Digest", absl::StrCat(kTest, ",")},
                                          {"Content-Digest", absl::StrCat(kTest, " x")},
                                          {"Content-Digest", absl::StrCat(kTest, ", sha-256=x")},
                                          {"Content-Digest", absl::StrCat("(", kTest, ")")},
                                          {"Repr-Digest", "sha-512=:AA==:"},
                                          {"Repr-Digest", "xyz"},
                                          {"Digest", "SHA-256=AA=="},
                                          {"Content-MD5", "AA=="},
                                          {"Trailer", "X-Time, Content-Digest"}};
  for (const HttpField& field : refused) {
    const absl::Status status = ReadContentDigest({.fields = {field}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field.name << ": " << field.value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field.name)) << field.value;
  }
  const absl::Status both =
      ReadContentDigest({.fields = {{"Content-Digest", kTest}, {"Repr-Digest", kOther}}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(both)) << both;
}

TEST(ContentDigestTest, IsOfAnImageThatIsTheBody) {
  const auto check = [](std::vector<HttpField> fields, const std::string& query) {
    fields.push_back({"Content-Digest", kTest});
    FakeExchange exchange({.query = query, .fields = std::move(fields)},
                          std::make_shared<FakeClient>());
    AdmissionController admission({}, 1 << 20, Clock::Real());
    RequestRecord record;
    const Payer payer;
    AdmissionController::CallSlot slot;
    UpscaleParameters parameters;
    Upload upload(exchange, admission, slot, payer, record, parameters);
    const absl::Status status = upload.CheckHeader();
    EXPECT_EQ(upload.digest().has_value(), status.ok()) << status;
    return status;
  };
  EXPECT_TRUE(check({}, "scale=2").ok());
  EXPECT_TRUE(check({{"Content-Type", "image/png"}}, "").ok());
  EXPECT_THAT(std::string(check({{"Content-Type", "application/json"}}, "").message()),
              HasSubstr("JSON"));
  EXPECT_THAT(
      std::string(check({{"Content-Type", "multipart/form-data; boundary=X"}}, "").message()),
      HasSubstr("a form"));
  EXPECT_THAT(std::string(check({}, "url=https://a.example/").message()), HasSubstr("url"));
}

}  // namespace
}  // namespace upscaled::server
