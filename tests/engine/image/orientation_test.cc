// Every orientation in the formats with one: JPEG, PNG and WebP.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "engine/image/exif.h"
#include "engine/image/memory_io.h"
#include "engine/image/tiff_directory.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

constexpr size_t kBehindIhdr = 33;
constexpr size_t kExifPrefixBytes = 6;

// A file of `image` with `orientation`, with "Exif" before the block or not.
std::string FileOf(ImageFormat format, const Image& image, int orientation, bool big_endian,
                   bool prefixed) {
  const std::string segment = test::ExifSegment(orientation, big_endian);
  const std::string exif = prefixed ? segment : segment.substr(kExifPrefixBytes);
  if (format == ImageFormat::kPng) {
    std::string png = *test::Encode(image.view(), {});
    return png.insert(kBehindIhdr, test::PngChunk("eXIf", exif));
  }
  return *test::Encode(image.view(), {.format = format, .quality = 100}, {.exif = exif});
}

TEST(OrientationTest, EveryFormatIsTurnedUpright) {
  std::mt19937 random = test::FreshRandom();
  for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kPng, ImageFormat::kWebp})
    for (int orientation = 1; orientation <= 8; ++orientation)
      for (const bool big_endian : {false, true})
        for (const bool prefixed : {false, true}) {
          if (format == ImageFormat::kJpeg && prefixed) continue;  // its segment has it anyway
          SCOPED_TRACE(::testing::Message()
                       << FormatName(format) << orientation << big_endian << prefixed);
          const Image image = test::PhotoImage({37, 21, 3, SampleType::kU8}, random);
          const std::string bytes = FileOf(format, image, orientation, big_endian, prefixed);
          const auto stored = test::Decode(FileOf(format, image, 1, big_endian, prefixed));
          ASSERT_TRUE(stored.ok()) << stored.status();
          MemorySource source(bytes);
          const auto decoder = OpenImageDecoder(source, {});
          ASSERT_TRUE(decoder.ok()) << decoder.status();
          EXPECT_EQ(static_cast<int>((*decoder)->header().orientation), orientation);
          const auto rows = test::ReadAllInPortions(**decoder, random);
          ASSERT_TRUE(rows.ok()) << rows.status();
          EXPECT_TRUE(test::SameImages(
              rows->view(), test::TurnUpright(stored->image.view(), orientation).view()));
          // The result says it is upright.
          std::vector<std::string> warnings;
          ImageMetadata metadata =
              MetadataForResult((*decoder)->metadata(), MetadataPolicy::kKeep, format,
                                (*decoder)->spec(), /*too_late=*/false, warnings);
          const auto again =
              test::Decode(*test::Encode(rows->view(), {.format = format}, metadata));
          ASSERT_TRUE(again.ok()) << again.status();
          EXPECT_EQ(again->header.orientation, Orientation::kIdentity);
          EXPECT_FALSE(again->metadata.exif.empty());
        }
}

// The resolutions of the file's two sides, in the order of the upright picture's.
TEST(OrientationTest, ResolutionsGoWithTheSides) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({37, 21, 3, SampleType::kU8}, random);
  for (const ImageFormat format :
       {ImageFormat::kJpeg, ImageFormat::kPng, ImageFormat::kWebp, ImageFormat::kTiff})
    for (int orientation = 1; orientation <= 8; ++orientation)
      for (const bool big_endian : {false, true}) {
        SCOPED_TRACE(::testing::Message() << FormatName(format) << orientation << big_endian);
        ImageMetadata metadata = {.density = PixelDensity{PixelDensity::Unit::kInch, 300, 200}};
        metadata.exif = test::ExifSegment(orientation, big_endian).substr(kExifPrefixBytes);
        ASSERT_TRUE(SetExifDensity(*metadata.density, metadata.exif));
        const auto decoded =
            test::Decode(*test::Encode(image.view(), {.format = format}, metadata));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        const bool turned = static_cast<int>(decoded->header.orientation) > 4;
        EXPECT_EQ(turned, orientation > 4);
        const std::optional<PixelDensity>& density = decoded->metadata.density;
        EXPECT_EQ(density.has_value(), format != ImageFormat::kWebp);
        if (density.has_value()) {
          EXPECT_EQ(density->x < density->y, turned);
        }
        if (format == ImageFormat::kTiff) continue;  // its EXIF had nothing but the density
        const auto exif = TiffFile::Open(AsBytes(decoded->metadata.exif));
        ASSERT_TRUE(exif.has_value());
        const TiffDirectory directory = exif->Read(exif->first_directory());
        EXPECT_EQ(exif->Rational(*directory.Find(kTiffXResolution)), turned ? 200 : 300);
        EXPECT_EQ(exif->Rational(*directory.Find(kTiffYResolution)), turned ? 300 : 200);
      }
}

// A file ends where its RIFF header says.
TEST(OrientationTest, NothingBehindAWebpTurnsIt) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({37, 21, 3, SampleType::kU8}, random);
  const ImageMetadata metadata = {.exif = test::ExifSegment(6, false).substr(kExifPrefixBytes)};
  std::string file = *test::Encode(image.view(), {.format = ImageFormat::kWebp}, metadata);
  EXPECT_EQ(test::Decode(file)->image.spec().width_px, 21);
  const size_t exif = file.find("EXIF");
  ASSERT_NE(exif, std::string::npos);
  for (int i = 0; i < 4; ++i) file[4 + i] = static_cast<char>((exif - 8) >> 8 * i);
  const auto decoded = test::Decode(file);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->image.spec().width_px, 37);
  EXPECT_EQ(decoded->metadata.exif, "");
}

TEST(OrientationTest, PngSaysItBeforeThePixelsOrNotAtAll) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({37, 21, 3, SampleType::kU8}, random);
  const std::string chunk = test::PngChunk("eXIf", test::ExifSegment(6, true).substr(6));
  std::string late = *test::Encode(image.view(), {});
  late.insert(late.size() - 12, chunk);
  std::string damaged = *test::Encode(image.view(), {});
  damaged.insert(kBehindIhdr, chunk);
  damaged[kBehindIhdr + chunk.size() - 1] ^= 1;  // its CRC
  for (const std::string& bytes : {late, damaged}) {
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
  }
  EXPECT_FALSE(test::Decode(late)->late_metadata.exif.empty());
}

// The size must be known from the first bytes; a file beyond the limit does not show them.
TEST(OrientationTest, WebpBeyondTheLimitKeepsItsTag) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({200, 100, 3, SampleType::kU8}, random);
  const std::string bytes = FileOf(ImageFormat::kWebp, image, 6, true, false);
  const size_t less = bytes.size() - 1;
  for (const DecodeLimits& limits :
       {DecodeLimits{.max_metadata_bytes = less}, DecodeLimits{.max_animation_bytes = less}})
    EXPECT_EQ(test::Decode(bytes, limits)->header.spec.size(), (Size{100, 200}));
  const auto decoded =
      test::Decode(bytes, {.max_metadata_bytes = less, .max_animation_bytes = less});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.spec.size(), (Size{200, 100}));
  EXPECT_THAT(decoded->warnings,
              ::testing::ElementsAre("WebP: the image is not turned upright as its EXIF says: the "
                                     "file has more than " +
                                     std::to_string(less) + " bytes"));
  for (const MetadataPolicy policy : {MetadataPolicy::kKeep, MetadataPolicy::kStripLocation,
                                      MetadataPolicy::kIcc, MetadataPolicy::kStrip})
    for (const ImageFormat format : kImageFormats) {
      if (!CanEncode(format)) continue;
      SCOPED_TRACE(::testing::Message()
                   << FormatName(format) << ", policy " << static_cast<int>(policy));
      const bool is_stripped = policy == MetadataPolicy::kIcc || policy == MetadataPolicy::kStrip;
      const bool is_heeded = format != ImageFormat::kAvif && format != ImageFormat::kJxl;
      std::vector<std::string> warnings;
      MetadataForResult(decoded->metadata, policy, format, image.spec(), /*too_late=*/false,
                        warnings);
      EXPECT_EQ(std::ranges::count(warnings,
                                   "nothing in the result says how the image lies: viewers show it "
                                   "as it is stored"),
                is_stripped || !is_heeded ? 1 : 0);
    }
  std::vector<std::string> warnings;
  const ImageMetadata kept =
      MetadataForResult(decoded->metadata, MetadataPolicy::kKeep, ImageFormat::kWebp, image.spec(),
                        /*too_late=*/false, warnings);
  const auto again = test::Decode(
      *test::Encode(image.view(), {.format = ImageFormat::kWebp, .quality = 100}, kept));
  EXPECT_EQ(again->header.orientation, Orientation::kRotate90);
}

}  // namespace
}  // namespace upscaled
