#include "server/rest/json_body.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string JsonRefusal(const std::string& text) {
  const absl::Status status = ParseJsonBody(text).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption) << text;
  return std::string(status.message());
}

TEST(JsonBodyTest, ReadsTheImageAndTheOptions) {
  const auto body = ParseJsonBody(
      R"({"image": "aGVs\nbG8=", "scale": 1.5, "noise": -1, "tta": true, "format": "webp",
          "model": null, "quality": 90})");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->image, "hello");
  EXPECT_THAT(body->fields, ElementsAre(FormField{"scale", "1.5"}, FormField{"noise", "-1"},
                                        FormField{"tta", "true"}, FormField{"format", "webp"},
                                        FormField{"quality", "90"}));
  EXPECT_THAT(
      ParseJsonBody(R"({"width": 90.0, "quality": 9e1, "scale": 90.5, "a": 1e300})")->fields,
      ElementsAre(FormField{"width", "90"}, FormField{"quality", "90"}, FormField{"scale", "90.5"},
                  FormField{"a", "1e300"}));
  EXPECT_EQ(ParseJsonBody(R"({"file": "data:image/png;base64,aGVsbG8="})")->image, "hello");
  EXPECT_EQ(ParseJsonBody(R"({"image": "_-8"})")->image, "\xff\xef") << "of URLs, without padding";
  EXPECT_EQ(ParseJsonBody("{}")->image, std::nullopt);
  EXPECT_EQ(ParseJsonBody(R"({"image": ""})")->image, std::nullopt);
}

TEST(JsonBodyTest, RefusesOtherDocuments) {
  for (const char* text : {"", "nothing", "{", R"({"a": 1)", R"({"a": 1} x)", R"({"a" 1})"}) {
    EXPECT_THAT(JsonRefusal(text), HasSubstr("no JSON")) << text;
  }
  for (const char* text : {"[]", "1", "\"text\"", "null", "true", R"([{"image": ""}])"}) {
    EXPECT_THAT(JsonRefusal(text), HasSubstr("no object")) << text;
  }
  EXPECT_THAT(JsonRefusal(R"({"size": {"width": 3}})"), HasSubstr("\"size\" is an object"));
  EXPECT_THAT(JsonRefusal(R"({"image": ["aGVsbG8="]})"), HasSubstr("\"image\" is an array"));
  EXPECT_THAT(JsonRefusal(R"({"image": "no picture!"})"), HasSubstr("no base64"));
  EXPECT_THAT(JsonRefusal(R"({"image": "data:image/png,x"})"), HasSubstr("not in base64"));
  EXPECT_THAT(JsonRefusal(R"({"image": "QQ==", "file": "QQ=="})"), HasSubstr("two images"));
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"a" + std::to_string(i) + "\": 1, ";
  EXPECT_THAT(JsonRefusal(many + "\"b\": 1}"), HasSubstr("more than 64 fields"));
}

// Neither depth nor breadth costs more than the bytes themselves.
TEST(JsonBodyTest, StopsAtTheFirstNestedValue) {
  EXPECT_THAT(JsonRefusal(std::string(8 << 20, '[')), HasSubstr("no object"));
  EXPECT_THAT(JsonRefusal("{\"a\": " + std::string(8 << 20, '[')), HasSubstr("is an array"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(JsonRefusal(objects), HasSubstr("is an object"));
}

TEST(DataUrlTest, IsDecoded) {
  EXPECT_TRUE(IsDataUrl("DATA:,"));
  EXPECT_FALSE(IsDataUrl("https://example.org/data:"));
  EXPECT_EQ(*DecodeDataUrl("data:image/png;charset=x;base64,aGVsbG8="), "hello");
  EXPECT_EQ(*DecodeDataUrl("data:;BASE64,++8="), "\xfb\xef");
  EXPECT_EQ(*DecodeDataUrl("data:;base64,  8="), "\xfb\xef") << "out of a query";
  for (const char* url : {"data:", "data:image/png;base64", "data:,hello", "data:;base64,!"}) {
    EXPECT_EQ(ReasonOf(DecodeDataUrl(url).status()), ErrorReason::kInvalidOption) << url;
  }
}

TEST(IsJsonTest, LooksAtTheTypeAlone) {
  EXPECT_TRUE(IsJson("application/json"));
  EXPECT_TRUE(IsJson("Application/JSON ; charset=utf-8"));
  for (const char* type : {"", "application/jsonp", "text/json;application/json", "image/png"}) {
    EXPECT_FALSE(IsJson(type)) << type;
  }
}

}  // namespace
}  // namespace upscaled::server
