// ParseImageHeader on every prefix of files of every format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

bool Same(const ImageHeader& a, const ImageHeader& b) {
  return a.format == b.format && a.spec == b.spec && a.orientation == b.orientation &&
         a.decoder_bytes == b.decoder_bytes;
}

std::vector<std::string> FilesOfEveryKind(std::mt19937& random) {
  std::vector<std::string> files;
  test::PngFile palette = test::RandomPng(31, 20, 4, 3, random);
  palette.palette_alpha = {0, 100};
  palette.interlaced = true;
  files.push_back(test::WritePng(palette));
  files.push_back(test::WritePng(test::RandomPng(5, 40, 16, 4, random)));
  const ImageSpec rgb = {40, 30, 3, SampleType::kU8}, rgba = {40, 30, 4, SampleType::kU8};
  const Image image = test::PhotoImage(rgb, random), alpha = test::PhotoImage(rgba, random);
  const ImageMetadata metadata = {test::TestProfile(false, 400)};
  for (ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    files.push_back(*test::Encode(image.view(), {.format = format}, metadata));
    files.push_back(*test::Encode(image.view(), {.format = format}));
  }
  for (int quality : {60, 100})
    files.push_back(*test::Encode(alpha.view(), {.format = ImageFormat::kWebp, .quality = quality},
                                  quality == 60 ? metadata : ImageMetadata()));
  files.push_back(
      test::WriteJpeg({.progressive = true, .exif = test::ExifSegment(6, true)}, image.view()));
  files.push_back(test::WriteJpeg({.color = test::JpegColor::kYcck}, alpha.view()));
  files.push_back(test::WriteJpeg({.scan_per_component = true}, image.view()));
  return files;
}

TEST(HeaderTest, EveryPrefixIsUnknownOrAgreesWithTheDecoder) {
  std::mt19937 random = test::FreshRandom();
  for (const std::string& file : FilesOfEveryKind(random)) {
    const auto decoded = test::Decode(file);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    bool known = false;
    for (size_t length = 0; length <= file.size(); ++length) {
      // A copy of its own lets a sanitizer see a read past the end.
      const std::vector<uint8_t> prefix(file.begin(), file.begin() + length);
      const auto header = ParseImageHeader(prefix, {});
      ASSERT_TRUE(header.ok()) << header.status();
      if (known) {
        EXPECT_TRUE(header->has_value());
      }
      known = header->has_value();
      if (known) {
        EXPECT_TRUE(Same(**header, decoded->header));
      }
    }
    EXPECT_TRUE(known);
  }
}

TEST(HeaderTest, NeedsFewBytes) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({64, 64, 3, SampleType::kU8}, random);
  for (ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const auto bytes = test::Encode(image.view(), {.format = format});
    const auto header = ParseImageHeader(AsBytes(*bytes).first(700), {});
    ASSERT_TRUE(header.ok() && header->has_value());
    EXPECT_EQ((*header)->spec, image.spec());
  }
}

// The bytes a decoder holds at once, by format.
TEST(HeaderTest, DecoderBytesTellWhoNeedsTheWholeImage) {
  std::mt19937 random = test::FreshRandom();
  const ImageSpec spec = {400, 3000, 3, SampleType::kU8};
  const size_t image_bytes = spec.row_bytes() * spec.height_px;
  const Image image = test::PhotoImage(spec, random);
  const auto decoder_bytes = [](const std::string& file) {
    return (*ParseImageHeader(AsBytes(file), {}))->decoder_bytes;
  };
  EXPECT_LT(decoder_bytes(*test::Encode(image.view(), {})), image_bytes / 4);
  EXPECT_LT(decoder_bytes(test::WriteJpeg({}, image.view())), image_bytes / 4);
  EXPECT_GT(decoder_bytes(test::WriteJpeg({.progressive = true}, image.view())), 2 * image_bytes);
  EXPECT_GT(decoder_bytes(test::WriteJpeg({.scan_per_component = true}, image.view())),
            2 * image_bytes);
  EXPECT_GT(decoder_bytes(test::WriteJpeg({.exif = test::ExifSegment(3, true)}, image.view())),
            image_bytes);
  test::PngFile interlaced = test::RandomPng(400, 3000, 8, 2, random);
  interlaced.interlaced = true;
  EXPECT_GT(decoder_bytes(test::WritePng(interlaced)), image_bytes);
  EXPECT_GT(decoder_bytes(*test::Encode(image.view(), {.format = ImageFormat::kWebp})),
            image_bytes);
}

TEST(HeaderTest, LimitsAreCheckedAndNamed) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({300, 200, 3, SampleType::kU8}, random);
  const ImageMetadata metadata = {test::TestProfile(false, 5000)};
  for (ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    SCOPED_TRACE(FormatName(format));
    const std::string bytes = *test::Encode(image.view(), {.format = format}, metadata);
    const auto message = [&](const DecodeLimits& limits) {
      const absl::Status status = ParseImageHeader(AsBytes(bytes), limits).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(test::Decode(bytes, limits).status(), status);
      return std::string(status.message());
    };
    EXPECT_TRUE(ParseImageHeader(AsBytes(bytes), {.max_pixels = 60000, .max_side_px = 300}).ok());
    EXPECT_THAT(message({.max_pixels = 59999}),
                HasSubstr("the image has 60000 pixels (300 x 200); the limit is 59999"));
    EXPECT_THAT(message({.max_side_px = 299}),
                HasSubstr("the image is 300 x 200 px; the limit is 299 px a side"));
    EXPECT_THAT(message({.max_metadata_bytes = 99}),
                HasSubstr("bytes come before the pixels; the limit is 99"));
  }
}

TEST(HeaderTest, RefusesOtherFiles) {
  for (std::string_view bytes : {"8BPS\1\2\3\4", "BM\1\2\3\4\5\6\7\1", "\x89PNG\r\n\x1a\r",
                                 "RIFF1234WAVE", "hello, world", "\xff\xd8\xfe"}) {
    const absl::Status status = ParseImageHeader(AsBytes(bytes), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not a PNG, JPEG"));
  }
  const absl::Status empty = test::Decode("").status();
  EXPECT_EQ(empty, absl::InvalidArgumentError("the image is empty"));
}

TEST(HeaderTest, NamesThePngOfIphones) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({5, 4, 4, SampleType::kU8}, random);
  std::string png = *test::Encode(image.view(), {});
  constexpr size_t kSignatureBytes = 8;
  png.insert(kSignatureBytes, test::PngChunk("CgBI", std::string("\x50\0\x20\2", 4)));
  const absl::Status status = ParseImageHeader(AsBytes(png), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CgBI"));
}

TEST(HeaderTest, RandomBytesAfterASignatureNeverCrash) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 20000; ++i) {
    constexpr std::string_view kBegins[] = {{"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0", 19},
                                            {"\xff\xd8\xff", 3},
                                            {"RIFF\0\1\0\0WEBPVP8", 15}};
    std::string bytes(kBegins[i % 3]);
    for (int n = test::RandomInt(random, 0, 60); n > 0; --n)
      bytes.push_back(static_cast<char>(test::RandomInt(random, 0, 255)));
    const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
    (void)ParseImageHeader(copy, {});
  }
}

}  // namespace
}  // namespace upscaled
