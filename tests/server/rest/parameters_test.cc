#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/image/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json/enum_names.h"
#include "server/base/error.h"
#include "server/options/contract_values.h"
#include "server/rest/accept.h"
#include "server/rest/upscale_parameters.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

using testing::HasSubstr;

absl::Status Read(const std::string& query, UpscaleParameters& parameters) {
  ParameterReader reader(parameters);
  const std::vector<FormField> fields = *ParseQuery(query);
  for (const FormField& field : fields) {
    if (absl::Status status = reader.Read(field); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Refusal(const std::string& query) {
  UpscaleParameters parameters;
  const absl::Status status = Read(query, parameters);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption) << query;
  EXPECT_TRUE(MetadataOf(status).contains("field")) << query;
  return std::string(status.message());
}

TEST(ParameterReaderTest, ReadsEveryOption) {
  UpscaleParameters p;
  ASSERT_TRUE(Read("model=fast-2x&noise_level=-1&width_px=10&height_px=20&tta=true&format=JPG&"
                   "quality=80&png_compression=9&keep_16_bit=1&precision=fast&tile_px=64&"
                   "sigma_space=1.5&sigma_range=20&request_id=r&dry_run&on_error=original&"
                   "fit=cover&max_pixels=5000000000&no_enlarge&depth=16&alpha=resample&"
                   "alpha_colour=keep&keep_colours=off&metadata=strip-location&on_damage=fill&"
                   "download=x.png&frame=7",
                   p)
                  .ok());
  EXPECT_EQ(p.options.model(), "fast-2x");
  EXPECT_TRUE(p.options.has_noise_level());
  EXPECT_EQ(p.options.noise_level(), -1);
  EXPECT_EQ(p.options.size().width_px(), 10);
  EXPECT_EQ(p.options.size().height_px(), 20);
  EXPECT_TRUE(p.options.tta());
  EXPECT_EQ(p.options.format(), pb::IMAGE_FORMAT_JPEG);
  EXPECT_EQ(p.options.quality(), 80);
  EXPECT_EQ(p.options.png_compression(), 9);
  EXPECT_TRUE(p.options.keep_16_bit());
  EXPECT_EQ(p.options.precision(), pb::PRECISION_FAST);
  EXPECT_EQ(p.options.tile_px(), 64);
  EXPECT_EQ(p.options.prefilter().sigma_space(), 1.5);
  EXPECT_EQ(p.options.prefilter().sigma_range(), 20);
  EXPECT_EQ(p.options.size().fit(), pb::FIT_COVER);
  EXPECT_EQ(p.options.max_pixels(), 5'000'000'000);
  EXPECT_TRUE(p.options.no_enlarge());
  EXPECT_EQ(p.options.depth(), pb::DEPTH_16);
  EXPECT_EQ(p.options.alpha(), pb::ALPHA_METHOD_RESAMPLE);
  EXPECT_EQ(p.options.alpha_colour(), pb::ALPHA_COLOUR_KEEP);
  EXPECT_TRUE(p.options.has_keep_colours());
  EXPECT_FALSE(p.options.keep_colours());
  EXPECT_EQ(p.options.metadata(), pb::METADATA_POLICY_STRIP_LOCATION);
  EXPECT_EQ(p.options.on_damage(), pb::DAMAGE_POLICY_FILL);
  EXPECT_EQ(p.options.frame(), 7);
  EXPECT_EQ(p.request_id, "r");
  EXPECT_TRUE(p.dry_run);
  EXPECT_TRUE(p.original_on_error);
  EXPECT_EQ(p.download, "x.png");
}

TEST(ParameterReaderTest, KnowsShortNamesAndLeavesEmptyFieldsOut) {
  UpscaleParameters p;
  ASSERT_TRUE(Read("noise=2&width=10&height=&scale=&tta=off&dry_run=0&on_error=problem", p).ok());
  EXPECT_EQ(p.options.noise_level(), 2);
  EXPECT_EQ(p.options.size().width_px(), 10);
  EXPECT_EQ(p.options.size().height_px(), 0);
  EXPECT_FALSE(p.options.has_scale());
  EXPECT_FALSE(p.options.tta() || p.dry_run || p.original_on_error);
  ASSERT_TRUE(Read("scale=1.5", p = {}).ok());
  EXPECT_EQ(p.options.scale(), 1.5);
  ASSERT_TRUE(Read("noise=auto&short_side=9&depth=auto", p = {}).ok());
  EXPECT_TRUE(p.options.auto_noise());
  EXPECT_FALSE(p.options.has_noise_level());
  EXPECT_EQ(p.options.size().short_side_px(), 9);
  EXPECT_EQ(p.options.depth(), pb::DEPTH_UNSPECIFIED);
  ASSERT_TRUE(Read("frame=first", p = {}).ok());
  EXPECT_EQ(p.options.frame(), 1);
  ASSERT_TRUE(Read("frame=all", p = {}).ok());
  EXPECT_EQ(p.options.frame(), 0);
  ASSERT_TRUE(Read("long_side=9", p = {}).ok());
  EXPECT_EQ(p.options.size().long_side_px(), 9);
}

// Browsers send each input of a form, also the ones that the user left empty.
TEST(ParameterReaderTest, EmptyFieldsExcludeAndRepeatNoOthers) {
  for (const std::string_view name : ParameterNames()) {
    const std::string empty = absl::StrCat(ToAbsl(name), "=");
    UpscaleParameters p;
    EXPECT_TRUE(Read(empty + "&scale=3", p).ok()) << name;
    EXPECT_EQ(p.options.scale(), 3) << name;
    EXPECT_TRUE(Read("scale=3&" + empty, p = {}).ok()) << name;
    EXPECT_TRUE(Read(empty + "&height=3&" + empty, p = {}).ok()) << name;
    EXPECT_EQ(p.options.size().height_px(), 3) << name;
  }
  for (const std::string_view order : {"width=&height=3&scale=2", "height=3&width=&scale=2"})
    EXPECT_THAT(Refusal(std::string(order)), HasSubstr("scale is given next to height;"));
  EXPECT_THAT(Refusal("scale=2&width=&height=3"), HasSubstr("height is given next to scale;"));
  EXPECT_THAT(Refusal("sacle="), HasSubstr("no option \"sacle\""));
  UpscaleParameters p;
  EXPECT_TRUE(Read("width=&width=3&width_px=", p).ok());
  EXPECT_EQ(p.options.size().width_px(), 3);
}

TEST(ParameterReaderTest, ReadsTheContractsWholeNames) {
  UpscaleParameters p;
  ASSERT_TRUE(
      Read("format=IMAGE_FORMAT_WEBP&precision=PRECISION_EXACT&depth=DEPTH_8&fit=FIT_STRETCH&"
           "alpha=ALPHA_METHOD_RESAMPLE&alpha_colour=ALPHA_COLOUR_KEEP&"
           "metadata=METADATA_POLICY_ICC&on_damage=DAMAGE_POLICY_FILL",
           p)
          .ok());
  EXPECT_EQ(p.options.format(), pb::IMAGE_FORMAT_WEBP);
  EXPECT_EQ(p.options.precision(), pb::PRECISION_EXACT);
  EXPECT_EQ(p.options.depth(), pb::DEPTH_8);
  EXPECT_EQ(p.options.size().fit(), pb::FIT_STRETCH);
  EXPECT_EQ(p.options.alpha(), pb::ALPHA_METHOD_RESAMPLE);
  EXPECT_EQ(p.options.alpha_colour(), pb::ALPHA_COLOUR_KEEP);
  EXPECT_EQ(p.options.metadata(), pb::METADATA_POLICY_ICC);
  EXPECT_EQ(p.options.on_damage(), pb::DAMAGE_POLICY_FILL);
  for (const char* const none : {"format=IMAGE_FORMAT_GIF", "precision=PRECISION_UNSPECIFIED",
                                 "depth=DEPTH_9", "fit=FIT_UNSPECIFIED"}) {
    EXPECT_THAT(Refusal(none), HasSubstr("it must be")) << none;
  }
}

TEST(ParameterReaderTest, RefusesByName) {
  EXPECT_THAT(Refusal("sacle=2"), HasSubstr("no option \"sacle\"; there are model, noise_level"));
  EXPECT_THAT(Refusal("scale=2&scale=2"), HasSubstr("scale is given more than once"));
  EXPECT_THAT(Refusal("noise=1&noise_level=2"), HasSubstr("noise_level is given more than once"));
  EXPECT_THAT(Refusal("noise=1&noise_level=2"), HasSubstr("before as noise"));
  EXPECT_THAT(Refusal("width=1&width=2"), HasSubstr("width is given more than once"));
  for (const char* const side : {"width", "height_px", "short_side", "long_side", "fit"}) {
    const std::string size = absl::StrCat(side, "=", side == std::string("fit") ? "cover" : "3");
    EXPECT_THAT(Refusal(absl::StrCat("scale=2&", size)),
                HasSubstr(absl::StrCat(side, " is given next to scale")));
    EXPECT_THAT(Refusal(absl::StrCat(size, "&scale=2")),
                HasSubstr(absl::StrCat("scale is given next to ", side)));
  }
  EXPECT_THAT(Refusal("scale=two"), HasSubstr("scale is \"two\"; it must be a number"));
  for (const char* const frame : {"frame=0", "frame=-1", "frame=last", "frame=1.5"}) {
    EXPECT_THAT(Refusal(frame), HasSubstr("must be all, first, or the number of a frame")) << frame;
  }
  EXPECT_THAT(Refusal("quality=1.5"), HasSubstr("must be a whole number"));
  EXPECT_THAT(Refusal("quality=99999999999"), HasSubstr("must be a whole number"));
  EXPECT_THAT(Refusal("tta=maybe"), HasSubstr("true or false"));
  EXPECT_THAT(Refusal("scale"), HasSubstr("scale has no value"));
  EXPECT_THAT(Refusal("width=wide"), HasSubstr("width is \"wide\"")) << "the name as it was sent";
  EXPECT_THAT(Refusal("width_px=wide"), HasSubstr("width_px is \"wide\""));
  const std::string formats = Refusal("format=text");
  for (const ImageFormat format : kImageFormats) {
    EXPECT_EQ(absl::StrContains(formats, ShortName(ToProto(format))), CanEncode(format)) << formats;
  }
  EXPECT_THAT(Refusal("precision=double"), HasSubstr("exact or fast"));
  EXPECT_THAT(Refusal("on_error=ignore"), HasSubstr("problem or original"));
}

// Errors of the contract's options have the name that the caller gave, in the message and as the
// field.
TEST(ReadOptionsTest, NamesParametersAsTheyWereGiven) {
  const std::pair<const char*, const char*> kCases[] = {
      {"width", "-1"},        {"width_px", "2000000"}, {"height", "-1"},     {"short_side", "-1"},
      {"long_side_px", "-1"}, {"noise", "9"},          {"noise_level", "9"}, {"scale", "99"},
      {"quality", "101"},     {"sigma_space", "99"},   {"max_pixels", "-1"}, {"tile_px", "1"}};
  for (const auto& [name, value] : kCases) {
    UpscaleParameters p;
    const bool is_sigma = absl::StartsWith(name, "sigma");
    ASSERT_TRUE(Read(absl::StrCat(name, "=", value, is_sigma ? "&sigma_range=9" : ""), p).ok());
    const absl::Status status = ReadOptions(p).status();
    EXPECT_TRUE(absl::StartsWith(status.message(), absl::StrCat(name, " is ", value))) << status;
    EXPECT_EQ(MetadataOf(status).at("field"), name);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption);
  }
  UpscaleParameters p;
  ASSERT_TRUE(Read("sigma_space=2", p).ok());  // sigma_range is not given
  EXPECT_TRUE(absl::StartsWith(ReadOptions(p).status().message(), "sigma_range is 0"));
  EXPECT_EQ(MetadataOf(ReadOptions(p).status()).at("field"), "sigma_range");
  ASSERT_TRUE(Read("width=5&long_side=6", p = {}).ok());
  EXPECT_THAT(ReadOptions(p).status().message(), HasSubstr("size is width 5, long_side 6; it"));
  ASSERT_TRUE(Read("width=5&fit=cover", p = {}).ok());
  EXPECT_THAT(ReadOptions(p).status().message(), HasSubstr("fit is given; it must be absent"));
  ASSERT_TRUE(Read("width=5&noise=2", p = {}).ok());
  ASSERT_TRUE(ReadOptions(p).ok());
  EXPECT_EQ(ReadOptions(p)->target.width_px, 5);
}

TEST(AcceptsFormatTest, HeedsTheMostSpecificRange) {
  const struct {
    const char* accept;
    bool png, jpeg;
  } kCases[] = {{"", true, true},
                {"*/*", true, true},
                {"image/*", true, true},
                {"application/json", true, true},
                {"text/html, application/xml", true, true},
                {"image/png", true, false},
                {"image/png;q=0", false, false},
                {"image/png;q=0, */*", false, true},
                {"image/*;q=0, image/png;q=0.1", true, false},
                {"*/*;q=0, image/*", true, true},
                {"image/gif", false, false},
                {"image/gif, image/svg+xml", false, false},
                {"text/html, image/gif, */*;q=0.1", true, true},
                {"*/*;q=0", false, false},
                {"IMAGE/JPEG", false, true},
                {"image/jpg", false, true}};
  for (const auto& [accept, png, jpeg] : kCases) {
    EXPECT_EQ(AcceptsFormat(accept, ImageFormat::kPng), png) << accept;
    EXPECT_EQ(AcceptsFormat(accept, ImageFormat::kJpeg), jpeg) << accept;
  }
}

TEST(ParameterNamesTest, AreAllDifferent) {
  const auto names = ParameterNames();
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
}

TEST(PreferredFormatTest, TakesTheFirstOfTheLikedBest) {
  EXPECT_EQ(PreferredFormat("image/webp"), ImageFormat::kWebp);
  EXPECT_EQ(PreferredFormat("image/png;q=0.5, IMAGE/JPEG"), ImageFormat::kJpeg);
  EXPECT_EQ(PreferredFormat("image/png, image/webp"), ImageFormat::kPng);
  EXPECT_EQ(PreferredFormat("image/webp;q=0.2, image/*;q=0.5, image/png;q=0"), ImageFormat::kWebp);
  EXPECT_EQ(PreferredFormat("image/avif,image/webp,image/apng,*/*;q=0.8"), ImageFormat::kWebp);
  EXPECT_EQ(PreferredFormat("image/gif, image/jpeg;q=0.5"), ImageFormat::kJpeg);
  EXPECT_EQ(PreferredFormat("image/jpg ; q=0.9, */*;q=0.1"), ImageFormat::kJpeg);
}

TEST(PreferredFormatTest, IsNoneWhereAnythingIsAsGood) {
  for (const char* accept : {"", "*/*", "image/*", "text/html", "image/*, image/webp;q=0.5",
                             "image/png;q=0", "image/png;q=x", ",;,"}) {
    EXPECT_EQ(PreferredFormat(accept), std::nullopt) << accept;
  }
}

}  // namespace
}  // namespace upscaled::server
