#include "server/options/request_options.h"

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "server/base/error.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using testing::HasSubstr;

using Change = std::function<void(pb::UpscaleOptions&)>;

absl::StatusOr<RequestOptions> OptionsWith(const Change& change) {
  pb::UpscaleOptions proto;
  change(proto);
  return FromProto(proto);
}

void ExpectTaken(const Change& change) {
  const auto options = OptionsWith(change);
  EXPECT_TRUE(options.ok()) << options.status();
}

// The error names the field as the contract does.
void ExpectRefused(const std::string& field, const Change& change) {
  const auto options = OptionsWith(change);
  EXPECT_EQ(ReasonOf(options.status()), ErrorReason::kInvalidOption) << field;
  EXPECT_EQ(MetadataOf(options.status())["field"], field);
  EXPECT_THAT(options.status().message(), HasSubstr(field));
}

TEST(RequestOptionsTest, HasDefaults) {
  const auto options = OptionsWith([](auto&) {});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->model, "");
  EXPECT_EQ(options->noise_level, kNoDenoise);
  EXPECT_TRUE(options->auto_noise);
  EXPECT_FALSE(options->tta || options->prefilter || options->format || options->precision);
  EXPECT_FALSE(options->alpha || options->alpha_colour || options->keep_colours);
  EXPECT_EQ(options->depth, Depth::kSource);
  EXPECT_EQ(options->metadata, MetadataPolicy::kKeep);
  EXPECT_FALSE(options->fill_damage);
}

TEST(RequestOptionsTest, BoundsNumbers) {
  struct Bounds {
    std::string field;
    int low, high;
    std::function<void(pb::UpscaleOptions&, int)> set;
  };
  const std::vector<Bounds> all = {
      {"noise_level", -1, 3, [](auto& proto, int value) { proto.set_noise_level(value); }},
      {"quality", 0, 100, [](auto& proto, int value) { proto.set_quality(value); }},
      {"png_compression", 0, 9, [](auto& proto, int value) { proto.set_png_compression(value); }},
      {"tile_px", 32, 4096, [](auto& proto, int value) { proto.set_tile_px(value); }},
  };
  for (const Bounds& of : all) {
    ExpectTaken([&](auto& proto) { of.set(proto, of.low); });
    ExpectTaken([&](auto& proto) { of.set(proto, of.high); });
    ExpectRefused(of.field, [&](auto& proto) { of.set(proto, of.low - 1); });
    ExpectRefused(of.field, [&](auto& proto) { of.set(proto, of.high + 1); });
    for (const int extreme : {std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
      ExpectRefused(of.field, [&](auto& proto) { of.set(proto, extreme); });
    }
  }
}

TEST(RequestOptionsTest, RefusesEnumValuesThatItDoesNotKnow) {
  for (const int value : {-1, 100}) {
    ExpectRefused("format", [&](auto& proto) { proto.set_format(pb::ImageFormat(value)); });
    ExpectRefused("precision", [&](auto& proto) { proto.set_precision(pb::Precision(value)); });
    ExpectRefused("depth", [&](auto& proto) { proto.set_depth(pb::Depth(value)); });
    ExpectRefused("alpha", [&](auto& proto) { proto.set_alpha(pb::AlphaMethod(value)); });
    ExpectRefused("alpha_colour",
                  [&](auto& proto) { proto.set_alpha_colour(pb::AlphaColour(value)); });
    ExpectRefused("metadata", [&](auto& proto) { proto.set_metadata(pb::MetadataPolicy(value)); });
    ExpectRefused("on_damage", [&](auto& proto) { proto.set_on_damage(pb::DamagePolicy(value)); });
    ExpectRefused("size.fit", [&](auto& proto) {
      proto.mutable_size()->set_width_px(1);
      proto.mutable_size()->set_height_px(1);
      proto.mutable_size()->set_fit(pb::Fit(value));
    });
  }
}

TEST(RequestOptionsTest, TakesScalesAboveZero) {
  for (const double scale : {1e-3, 0.5, 1.0, 3.7, 16.0}) {
    const auto options = OptionsWith([&](auto& proto) { proto.set_scale(scale); });
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->target.scale, scale);
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (const double scale : {0.0, -0.0, -2.0, 16.001, inf, -inf, std::nan("")}) {
    ExpectRefused("scale", [&](auto& proto) { proto.set_scale(scale); });
  }
}

TEST(RequestOptionsTest, TakesABoxOrOneSide) {
  const auto size = [](int width, int height, int short_side, int long_side) {
    return [=](pb::UpscaleOptions& proto) {
      proto.mutable_size()->set_width_px(width);
      proto.mutable_size()->set_height_px(height);
      proto.mutable_size()->set_short_side_px(short_side);
      proto.mutable_size()->set_long_side_px(long_side);
    };
  };
  ExpectTaken(size(9, 0, 0, 0));
  ExpectTaken(size(0, 9, 0, 0));
  ExpectTaken(size(9, 8, 0, 0));
  ExpectTaken(size(0, 0, 9, 0));
  ExpectTaken(size(0, 0, 0, 9));
  ExpectRefused("size", size(0, 0, 0, 0));
  ExpectRefused("size", size(9, 0, 9, 0));
  ExpectRefused("size", size(0, 9, 0, 9));
  ExpectRefused("size", size(0, 0, 9, 9));
  ExpectRefused("size.width_px", size(-1, 0, 0, 0));
  ExpectRefused("size.height_px", size(1, -1, 0, 0));
  ExpectRefused("size.short_side_px", size(0, 0, -1, 0));
  ExpectRefused("size.long_side_px", size(0, 0, 0, -1));
  ExpectRefused("size.fit", [&](auto& proto) {
    size(9, 0, 0, 0)(proto);
    proto.mutable_size()->set_fit(pb::FIT_COVER);
  });
  ExpectRefused("max_pixels", [](auto& proto) { proto.set_max_pixels(-1); });
}

TEST(RequestOptionsTest, BoundsThePrefilter) {
  const auto filter = [](double space, double range) {
    return [=](pb::UpscaleOptions& proto) {
      proto.mutable_prefilter()->set_sigma_space(space);
      proto.mutable_prefilter()->set_sigma_range(range);
    };
  };
  ExpectTaken(filter(BilateralOptions::kMinSigma, BilateralOptions::kMinSigma));
  for (const double wrong : {0.0, -1.0, 1e6, std::nan("")}) {
    ExpectRefused("prefilter.sigma_space", filter(wrong, 1));
    ExpectRefused("prefilter.sigma_range", filter(BilateralOptions::kMinSigma, wrong));
  }
}

TEST(RequestOptionsTest, TakesOneWayToChooseTheNoiseLevel) {
  ExpectTaken([](auto& proto) { proto.set_auto_noise(true); });
  ExpectRefused("auto_noise", [](auto& proto) {
    proto.set_auto_noise(true);
    proto.set_noise_level(1);
  });
  EXPECT_FALSE(OptionsWith([](auto& proto) { proto.set_noise_level(1); })->auto_noise);
}

TEST(RequestOptionsTest, MakesRequestIdsThatDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(*ChooseRequestId(""));
  EXPECT_EQ(ids.size(), 1000u);
  for (const std::string& id : ids) {
    EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f-]{14}4[0-9a-f]{3}-[89ab][0-9a-f-]+"));
    EXPECT_EQ(id.size(), 36u);
  }
}

TEST(RequestOptionsTest, KeepsPlainRequestIds) {
  EXPECT_EQ(*ChooseRequestId("a:b/c.d_7"), "a:b/c.d_7");
  for (const std::string wrong : {"a b", "a\nb", "a\x7f", "\xc3\xa4"}) {
    EXPECT_EQ(ReasonOf(ChooseRequestId(wrong).status()), ErrorReason::kInvalidOption);
  }
}

}  // namespace
}  // namespace upscaled::server
