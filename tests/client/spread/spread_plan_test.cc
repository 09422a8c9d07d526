// Each option of a request is honoured by an image over several servers, or refused by name.
#include "client/spread/spread_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace upscaled::client {
namespace {

namespace v1 = ::upscale::v1;
using ::testing::Contains;
using ::testing::HasSubstr;

v1::UpscaleOptions Parse(const std::string& text) {
  v1::UpscaleOptions options;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &options)) << text;
  return options;
}

v1::Model SomeModel() {
  v1::Model model;
  model.set_name("some");
  model.add_scales(2);
  for (const int level : {-1, 0, 1, 2, 3}) model.add_noise_levels(level);
  return model;
}

// A JPEG of strong compression.
ImageHeader SomeSource() {
  ImageHeader source;
  source.format = ImageFormat::kJpeg;
  source.spec = {60, 40, 3, SampleType::kU8};
  source.jpeg = JpegCoding{.quality = 30};
  return source;
}

SpreadPlan Plan(const std::string& text, const ImageHeader& source = SomeSource()) {
  const auto options = ReadOptions(Parse(text));
  EXPECT_TRUE(options.ok()) << text << ": " << options.status();
  if (!options.ok()) return {};
  const auto plan = PlanSpread(*options, SomeModel(), source);
  EXPECT_TRUE(plan.ok()) << text << ": " << plan.status();
  return plan.value_or(SpreadPlan());
}

std::string Refusal(const std::string& text) {
  const absl::Status status = ReadOptions(Parse(text)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

struct Honoured {
  const char* field;
  const char* option;  // as text
  std::function<bool(const SpreadPlan& plan)> is_done;
};

const Honoured kHonoured[] = {
    {"noise_level", "noise_level: 1", [](const auto& p) { return p.passes[0].noise_level == 1; }},
    {"auto_noise", "auto_noise: true", [](const auto& p) { return p.passes[0].noise_level == 3; }},
    {"scale", "scale: 1.5",
     [](const auto& p) {
       return p.result == Size{90, 60};
     }},
    {"size", "size { width_px: 30 }",
     [](const auto& p) {
       return p.result == Size{30, 20};
     }},
    {"max_pixels", "max_pixels: 600",
     [](const auto& p) {
       return p.result == Size{30, 20};
     }},
    {"no_enlarge", "no_enlarge: true",
     [](const auto& p) {
       return p.result == Size{60, 40};
     }},
    {"tta", "tta: true", [](const auto& p) { return p.upscale.tta; }},
    {"format", "format: IMAGE_FORMAT_TIFF",
     [](const auto& p) { return p.encode.format == ImageFormat::kTiff; }},
    {"quality", "quality: 7", [](const auto& p) { return p.encode.quality == 7; }},
    {"png_compression", "png_compression: 9",
     [](const auto& p) { return p.encode.compression == 9; }},
    {"tile_px", "tile_px: 64", [](const auto& p) { return p.upscale.tile_px == 64; }},
    {"prefilter", "prefilter { sigma_space: 2 sigma_range: 9 }",
     [](const auto& p) { return p.upscale.prefilter && p.upscale.prefilter->sigma_range == 9; }},
    {"alpha", "alpha: ALPHA_METHOD_RESAMPLE",
     [](const auto& p) { return p.upscale.alpha == AlphaMethod::kResample; }},
    {"alpha_colour", "alpha_colour: ALPHA_COLOUR_KEEP",
     [](const auto& p) { return p.upscale.alpha_colour == AlphaColour::kKeep; }},
    {"keep_colours", "keep_colours: false", [](const auto& p) { return !p.upscale.keep_colours; }},
    {"metadata", "metadata: METADATA_POLICY_STRIP_LOCATION",
     [](const auto& p) { return p.encode.metadata == MetadataPolicy::kStripLocation; }},
    {"depth", "depth: DEPTH_16 format: IMAGE_FORMAT_PNG",
     [](const auto& p) { return p.upscale.result_type == SampleType::kU16; }},
};

// The others have tests of their own: of the reading function of each.
const std::set<std::string> kElsewhere = {
    "model",        // FindModel
    "precision",    // SpreadClient, for each pass (tests/integration/spread_test.cc)
    "keep_16_bit",  // says nothing new
    "on_damage",    // DecodeLimitsFor, as the next one
    "frame",
    "seamless",  // is refused
};

TEST(SpreadPlanTest, EveryOptionIsHonoured) {
  std::set<std::string> tested = kElsewhere;
  for (const Honoured& honoured : kHonoured) {
    EXPECT_TRUE(honoured.is_done(Plan(honoured.option))) << honoured.option;
    EXPECT_TRUE(tested.insert(honoured.field).second) << honoured.field << " is listed twice";
  }
  const auto* const message = v1::UpscaleOptions::descriptor();
  for (int i = 0; i < message->field_count(); ++i) {
    EXPECT_THAT(tested, Contains(message->field(i)->name()));
  }
}

// A model as Real-CUGAN, whose networks of x3 and x4 lack levels that the one of x2 has.
TEST(SpreadPlanTest, PassesArePairsThatTheModelHas) {
  v1::Model model;
  model.set_name("gaps");
  for (const auto& [scale, level] :
       {std::pair{2, -1}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {3, -1}, {3, 0}, {3, 3}}) {
    model.mutable_variants()->Add();
    model.mutable_variants()->rbegin()->set_scale(scale);
    model.mutable_variants()->rbegin()->set_noise_level(level);
  }
  for (const int scale : {2, 3}) model.add_scales(scale);
  for (const int level : {-1, 0, 1, 2, 3}) model.add_noise_levels(level);
  for (const int scale : {2, 3}) {
    for (const int level : {0, 1, 2, 3}) {
      const std::string text = absl::StrCat("scale: ", scale, " noise_level: ", level);
      const auto plan = PlanSpread(*ReadOptions(Parse(text)), model, SomeSource());
      ASSERT_TRUE(plan.ok()) << text << plan.status();
      for (const ModelVariant& pass : plan->passes) {
        const auto is_pass = [&](const v1::ModelVariant& pair) {
          return pair.scale() == pass.scale && pair.noise_level() == pass.noise_level;
        };
        EXPECT_TRUE(std::ranges::any_of(model.variants(), is_pass)) << text;
      }
    }
  }
}

TEST(SpreadPlanTest, EveryPolicyOfMetadataIsHonoured) {
  const auto policy = [](const char* text) { return Plan(text).encode.metadata; };
  EXPECT_EQ(policy(""), MetadataPolicy::kKeep);
  EXPECT_EQ(policy("metadata: METADATA_POLICY_KEEP"), MetadataPolicy::kKeep);
  EXPECT_EQ(policy("metadata: METADATA_POLICY_STRIP"), MetadataPolicy::kStrip);
  EXPECT_EQ(policy("metadata: METADATA_POLICY_ICC"), MetadataPolicy::kIcc);
}

TEST(SpreadPlanTest, TheSourceIsReadAsAsked) {
  const auto limits = [](const char* text) { return DecodeLimitsFor(*ReadOptions(Parse(text))); };
  EXPECT_FALSE(limits("").fill_damage);
  EXPECT_FALSE(limits("on_damage: DAMAGE_POLICY_FAIL").fill_damage);
  EXPECT_TRUE(limits("on_damage: DAMAGE_POLICY_FILL").fill_damage);
  EXPECT_EQ(limits("frame: 3").frame, 3);
  EXPECT_FALSE(limits("frame: 3").warns_of_frames);
  for (const char* all : {"", "format: IMAGE_FORMAT_PNG", "format: IMAGE_FORMAT_GIF"}) {
    EXPECT_EQ(limits(all).frame, 1) << all;
    EXPECT_TRUE(limits(all).warns_of_frames) << all;
  }
}

TEST(SpreadPlanTest, LosslessWebpStaysLossless) {
  ImageHeader source = SomeSource();
  source.format = ImageFormat::kWebp;
  source.jpeg.reset();
  EXPECT_EQ(Plan("", source).encode.quality, EncodeOptions().quality);
  source.lossless_webp = true;
  EXPECT_EQ(Plan("", source).encode.quality, kLosslessWebpQuality);
  EXPECT_EQ(Plan("quality: 60", source).encode.quality, 60);
  EXPECT_EQ(Plan("format: IMAGE_FORMAT_JPEG", source).encode.quality, EncodeOptions().quality);
}

TEST(SpreadPlanTest, AResultOfAnotherFormatIsToldOf) {
  ImageHeader source = SomeSource();
  source.format = ImageFormat::kBmp;
  EXPECT_THAT(Plan("", source).warnings, Contains("bmp is not written: the result is png"));
  EXPECT_TRUE(Plan("format: IMAGE_FORMAT_PNG", source).warnings.empty());
}

TEST(SpreadPlanTest, OtherValuesAreRefusedByNameAndValue) {
  EXPECT_THAT(Refusal("seamless: true"), HasSubstr("seamless"));
  EXPECT_EQ(Refusal("scale: 0"), "scale is 0; it must be above 0, at most 16");
  EXPECT_EQ(Refusal("scale: 17"), "scale is 17; it must be above 0, at most 16");
  EXPECT_THAT(Refusal("size {}"), HasSubstr("a width, a height or both"));
  EXPECT_THAT(Refusal("size { width_px: 3 long_side_px: 9 }"), HasSubstr("long_side_px 9"));
  EXPECT_THAT(Refusal("size { width_px: 3 fit: FIT_COVER }"), HasSubstr("size.fit is given"));
  EXPECT_EQ(Refusal("max_pixels: -1"), "max_pixels is -1; it must be 0 or more");
  EXPECT_EQ(Refusal("noise_level: 4"), "noise_level is 4; it must be -1 to 3");
  EXPECT_THAT(Refusal("noise_level: 1 auto_noise: true"), HasSubstr("auto_noise is given"));
  EXPECT_EQ(Refusal("size { width_px: 1048577 }"),
            "size.width_px is 1048577; it must be 0 to 1048576");
  EXPECT_EQ(Refusal("size { long_side_px: -1 }"),
            "size.long_side_px is -1; it must be 0 to 1048576");
  EXPECT_THAT(Refusal("prefilter { sigma_space: 2 sigma_range: 0 }"),
              HasSubstr("prefilter.sigma_range is 0; it must be "));
  EXPECT_THAT(Refusal("prefilter { sigma_space: 1e6 sigma_range: 9 }"),
              HasSubstr("prefilter.sigma_space is 1e+06; it must be "));
  EXPECT_EQ(Refusal("quality: 101"), "quality is 101; it must be 0 to 100");
  EXPECT_EQ(Refusal("png_compression: 10"), "png_compression is 10; it must be 0 to 9");
  EXPECT_EQ(Refusal("tile_px: 31"), "tile_px is 31; it must be 32 to 4096");
  EXPECT_EQ(Refusal("frame: -1"), "frame is -1; it must be 0 to 1000000");
}

TEST(SpreadPlanTest, AFormatThatIsOnlyReadIsRefused) {
  for (const char* read_only : {"format: IMAGE_FORMAT_BMP", "format: IMAGE_FORMAT_HEIC"}) {
    const auto plan = PlanSpread(*ReadOptions(Parse(read_only)), SomeModel(), SomeSource());
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << read_only;
  }
}

TEST(SpreadPlanTest, UnknownValuesOfEnumsAreRefused) {
  const auto* const message = v1::UpscaleOptions::descriptor();
  for (int i = 0; i < message->field_count(); ++i) {
    const auto* const field = message->field(i);
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_ENUM) continue;
    v1::UpscaleOptions options;
    options.GetReflection()->SetEnumValue(&options, field, 99);
    const absl::Status status = ReadOptions(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field->name();
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(field->name(), " is 99")));
  }
}

}  // namespace
}  // namespace upscaled::client
