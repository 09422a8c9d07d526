#include "server/options/result_form.h"

#include <gmock/gmock.h>

#include "server/base/error.h"

namespace upscaled::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ImageHeader SourceOf(ImageFormat format) {
  ImageHeader source;
  source.format = format;
  source.spec = {60, 40, 3, SampleType::kU8};
  return source;
}

TEST(ResultFormTest, AResultHasTheSourcesFormatOrPng) {
  EXPECT_EQ(EncodingFor({}, SourceOf(ImageFormat::kJpeg)).format, ImageFormat::kJpeg);
  EXPECT_EQ(EncodingFor({}, SourceOf(ImageFormat::kBmp)).format, ImageFormat::kPng);
  const RequestOptions tiff{.format = ImageFormat::kTiff};
  EXPECT_EQ(EncodingFor(tiff, SourceOf(ImageFormat::kJpeg)).format, ImageFormat::kTiff);
}

TEST(ResultFormTest, LosslessWebpStaysLosslessUnlessAQualityIsAsked) {
  ImageHeader source = SourceOf(ImageFormat::kWebp);
  EXPECT_EQ(EncodingFor({}, source).quality, EncodeOptions().quality);
  source.lossless_webp = true;
  EXPECT_EQ(EncodingFor({}, source).quality, kLosslessWebpQuality);
  const RequestOptions asked{.encode = {.quality = 60}, .has_quality = true};
  EXPECT_EQ(EncodingFor(asked, source).quality, 60);
  const RequestOptions jpeg{.format = ImageFormat::kJpeg};
  EXPECT_EQ(EncodingFor(jpeg, source).quality, EncodeOptions().quality);
}

TEST(ResultFormTest, MetadataAndFramesAreHandedOn) {
  ImageHeader source = SourceOf(ImageFormat::kPng);
  source.animation = Animation{.frames = 3};
  const RequestOptions options{.metadata = MetadataPolicy::kIcc};
  EXPECT_EQ(EncodingFor(options, source).metadata, MetadataPolicy::kIcc);
  EXPECT_EQ(EncodingFor(options, source).animation->frames, 3);
}

TEST(ResultFormTest, DepthIsTheSourcesOrAsAsked) {
  ImageSpec wide = SourceOf(ImageFormat::kPng).spec;
  wide.type = SampleType::kU16;
  const auto type = [&](Depth depth, ImageFormat format, const ImageSpec& source) {
    return SampleTypeFor({.depth = depth}, format, source, {120, 80});
  };
  EXPECT_EQ(*type(Depth::kSource, ImageFormat::kPng, wide), SampleType::kU16);
  EXPECT_EQ(*type(Depth::kSource, ImageFormat::kJpeg, wide), SampleType::kU8);
  EXPECT_EQ(*type(Depth::k8, ImageFormat::kPng, wide), SampleType::kU8);
  const auto refused = type(Depth::k16, ImageFormat::kJpeg, wide).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kInvalidOption);
}

TEST(ResultFormTest, SidesThatTheFormatLacksAreRefused) {
  const ImageSpec source = SourceOf(ImageFormat::kWebp).spec;
  EXPECT_TRUE(SampleTypeFor({}, ImageFormat::kWebp, source, {16383, 9}).ok());
  const auto refused = SampleTypeFor({}, ImageFormat::kWebp, source, {16384, 9}).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kInvalidOption) << refused;
}

TEST(ResultFormTest, WarnsOfAFormatThatNoRequestNamed) {
  const auto warnings = [](const RequestOptions& options, ImageFormat format, ImageFormat source) {
    std::vector<std::string> found;
    WarnOfFormat(options, format, source, found);
    return found;
  };
  EXPECT_THAT(warnings({}, ImageFormat::kPng, ImageFormat::kBmp),
              ElementsAre("bmp is not written: the result is png"));
  EXPECT_THAT(warnings({}, ImageFormat::kPng, ImageFormat::kPng), IsEmpty());
  EXPECT_THAT(warnings({.format = ImageFormat::kPng}, ImageFormat::kPng, ImageFormat::kBmp),
              IsEmpty());
}

}  // namespace
}  // namespace upscaled::server
