#include "proto/json/message_json.h"

#include <cstdint>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "upscale/v1/admin.pb.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled {
namespace {

namespace pb = upscale::v1;
using google::protobuf::util::MessageDifferencer;
using nlohmann::json;

json Write(const google::protobuf::Message& message) { return json::parse(MessageToJson(message)); }

pb::UpscaleImageHeader Header() {
  pb::UpscaleImageHeader header;
  header.set_request_id("a \"b\"\n");
  header.set_result_width_px(1280);
  header.set_format(pb::IMAGE_FORMAT_JPEG);
  header.set_tiles(int64_t{1} << 60);
  header.mutable_estimate()->set_seconds(2);
  header.mutable_estimate()->set_nanos(250'000'000);
  header.add_warnings("one");
  return header;
}

TEST(MessageJsonTest, NumbersAreNumbersAndNamesAreShort) {
  const json header = Write(Header());
  EXPECT_EQ(header["request_id"], "a \"b\"\n");
  EXPECT_EQ(header["tiles"], int64_t{1} << 60);
  EXPECT_EQ(header["format"], "jpeg");
  EXPECT_EQ(header["estimate_seconds"], 2.25);
  EXPECT_FALSE(header.contains("estimate"));
  EXPECT_EQ(header["warnings"], json({"one"}));
  EXPECT_EQ(header["cached"], false) << "defaults are printed";
}

TEST(MessageJsonTest, WritesListsOfNamesAndInnerMessages) {
  pb::GetServerInfoResponse info;
  info.add_output_formats(pb::IMAGE_FORMAT_PNG);
  info.add_output_formats(pb::IMAGE_FORMAT_WEBP);
  info.add_devices()->set_state(pb::DEVICE_STATE_UP);
  info.mutable_devices(0)->set_failures(3);
  info.mutable_limits()->set_max_source_pixels(100'000'000);
  const json written = Write(info);
  EXPECT_EQ(written["output_formats"], json({"png", "webp"}));
  EXPECT_EQ(written["devices"][0]["state"], "up");
  EXPECT_EQ(written["devices"][0]["failures"], 3);
  EXPECT_EQ(written["limits"]["max_source_pixels"], 100'000'000);

  pb::UpscaleOptions options;
  options.set_metadata(pb::METADATA_POLICY_STRIP_LOCATION);
  EXPECT_EQ(Write(options)["metadata"], "strip-location");
}

TEST(MessageJsonTest, KeepsAValueThatTheContractDoesNotHave) {
  pb::UpscaleImageHeader header;
  header.set_format(static_cast<pb::ImageFormat>(99));
  EXPECT_EQ(Write(header)["format"], 99);
}

TEST(MessageJsonTest, ReadsItsOwnDialectAndProtobufs) {
  const pb::UpscaleImageHeader header = Header();
  google::protobuf::util::JsonPrintOptions names;
  names.preserve_proto_field_names = true;
  std::string theirs;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(header, &theirs, names).ok());
  ASSERT_THAT(theirs, testing::HasSubstr("IMAGE_FORMAT_JPEG"));
  for (const std::string& text :
       {MessageToJson(header), MessageToJson(header, /*indented=*/true), theirs}) {
    pb::UpscaleImageHeader read;
    ASSERT_TRUE(ReadMessageJson(text, read)) << text;
    EXPECT_TRUE(MessageDifferencer::Equals(read, header)) << text << "\n" << read.DebugString();
  }
}

// Fields that the contract may come to have.
TEST(MessageJsonTest, MapsAndListsOfAnyValues) {
  google::protobuf::FileDescriptorProto file;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    name: "later.proto" package: "later" syntax: "proto3"
    dependency: ["google/protobuf/duration.proto", "upscale/v1/upscale.proto"]
    message_type {
      name: "Later"
      field { name: "waits" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".google.protobuf.Duration" }
      field { name: "sizes" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".later.Later.SizesEntry" }
      field { name: "formats" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".later.Later.FormatsEntry" }
      field { name: "times" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".later.Later.TimesEntry" }
      nested_type {
        name: "SizesEntry" options { map_entry: true }
        field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 } }
      nested_type {
        name: "FormatsEntry" options { map_entry: true }
        field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_ENUM
                type_name: ".upscale.v1.ImageFormat" } }
      nested_type {
        name: "TimesEntry" options { map_entry: true }
        field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                type_name: ".google.protobuf.Duration" } }
    })",
                                                            &file));
  google::protobuf::DescriptorPool pool(google::protobuf::DescriptorPool::generated_pool());
  const google::protobuf::FileDescriptor* const built = pool.BuildFile(file);
  ASSERT_NE(built, nullptr);
  google::protobuf::DynamicMessageFactory factory(&pool);
  const google::protobuf::Message& type = *factory.GetPrototype(built->message_type(0));
  const json later = {{"waits_seconds", {0.25, 3.0}},
                      {"sizes", {{"a", int64_t{1} << 60}, {"key", 2}}},
                      {"formats", {{"value", "png"}}},
                      {"times_seconds", {{"b", 1.5}}}};
  const std::unique_ptr<google::protobuf::Message> read(type.New());
  ASSERT_TRUE(ReadMessageJson(later.dump(), *read));
  EXPECT_EQ(Write(*read), later);
}

TEST(MessageJsonTest, PassesOverFieldsThatItDoesNotKnow) {
  pb::UpscaleImageHeader read;
  EXPECT_TRUE(ReadMessageJson(
      R"({"model":"a","later":{"deep":[1]},"later_seconds":1,"format":"of-2030"})", read));
  EXPECT_EQ(read.model(), "a");
  EXPECT_EQ(read.format(), pb::IMAGE_FORMAT_UNSPECIFIED);
}

TEST(ShallowJsonTest, NestsSixtyFourDeep) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(ParseShallow(nested(64)).dump(), nested(64));
  EXPECT_TRUE(ParseShallow(nested(65)).is_discarded());
  EXPECT_TRUE(ParseShallow("{\"a\":" + nested(64) + "}").is_discarded());
  EXPECT_EQ(ParseShallow("[" + nested(2) + "," + nested(63) + "]").size(), 2u) << "side by side";
}

// With a walk over all objects before each, this would take hours.
TEST(ShallowJsonTest, ManyObjectsAreReadInOnePass) {
  constexpr int kObjects = 1'000'000;
  std::string text = "[";
  for (int i = 0; i < kObjects; ++i) text += "{},";
  text += "1]";
  EXPECT_EQ(ParseShallow(text).size(), kObjects + 1u);
}

TEST(MessageJsonTest, RefusesTextsThatAreNoSuchMessage) {
  pb::UpscaleImageHeader read;
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"),
        std::string(R"({"result_width_px":"wide"})"), std::string(R"({"model":{}})"),
        std::string(R"({"estimate_seconds":"long"})"), std::string(100'000, '['),
        R"({"model":)" + std::string(100'000, '[')}) {
    EXPECT_FALSE(ReadMessageJson(text, read)) << text.substr(0, 50);
  }
}

}  // namespace
}  // namespace upscaled
