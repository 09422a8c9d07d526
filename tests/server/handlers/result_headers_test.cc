#include "server/handlers/result_headers.h"

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(SourceTextTest, KeepsWhatARequestIsResolvedBy) {
  ImageHeader plain;
  plain.spec = {640, 480, 3, SampleType::kU8};
  ImageHeader deep = plain;
  deep.format = ImageFormat::kTiff;
  deep.spec = {1, 70'000, 2, SampleType::kU16};
  ImageHeader photo = plain;
  photo.format = ImageFormat::kJpeg;
  photo.jpeg = JpegCoding{.quality = 85, .subsampled = true};
  ImageHeader lossless = plain;
  lossless.format = ImageFormat::kWebp;
  lossless.lossless_webp = true;
  for (const ImageHeader& source : {plain, deep, photo, lossless}) {
    const std::string text = SourceToText(source);
    const std::optional<ImageHeader> read = SourceFromText(text);
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(read->format, source.format) << text;
    EXPECT_EQ(read->spec, source.spec) << text;
    EXPECT_EQ(read->lossless_webp, source.lossless_webp) << text;
    ASSERT_EQ(read->jpeg.has_value(), source.jpeg.has_value()) << text;
    if (!source.jpeg.has_value()) continue;
    EXPECT_EQ(read->jpeg->quality, source.jpeg->quality) << text;
    EXPECT_EQ(read->jpeg->subsampled, source.jpeg->subsampled) << text;
  }
}

TEST(SourceTextTest, KeepsNoFrames) {
  ImageHeader source;
  source.animation.emplace();
  EXPECT_EQ(SourceToText(source), "");
  source.animation.reset();
  source.may_move = true;
  EXPECT_EQ(SourceToText(source), "");
}

TEST(SourceTextTest, OtherTextsAreNotRead) {
  for (const char* text : {"", "3", "2 0 640 480 3 0 0 0 0", "3 0 640 480 3 0 0 0",
                           "3 0 640 480 3 0 0 0 0 0", "3 0 640 480 3 0 0 0 x"}) {
    EXPECT_FALSE(SourceFromText(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace upscaled::server
