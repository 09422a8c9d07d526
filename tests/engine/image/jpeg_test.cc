// JPEG files of every type.
#include <array>
#include <cmath>
#include <cstdio>

#include <jpeglib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/colour_profiles.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::JpegColor;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Size kJpegSizes[] = {{1, 1}, {8, 9}, {17, 3}, {71, 50}};

Image Photo(Size size, int channels, std::mt19937& random) {
  ImageSpec spec = {size.width, size.height, channels, SampleType::kU8};
  Image image = test::PhotoImage(spec, random);
  // The fourth channel of CMYK is ink, not alpha, as in PhotoImage.
  if (channels == 4)
    for (int y = 0; y < size.height; ++y)
      for (int x = 0; x < size.width; ++x) image.mutable_view().row(y)[4 * x + 3] = 60 + 2 * y;
  return image;
}

TEST(JpegTest, DecodesEveryKindOfGrayAndColour) {
  std::mt19937 random = test::FreshRandom();
  for (JpegColor color : {JpegColor::kGray, JpegColor::kYcc, JpegColor::kRgb})
    for (bool progressive : {false, true})
      for (bool scan_per_component : {false, true})
        for (bool arithmetic : {false, true})
          for (int restart_interval : {0, 2})
            for (Size size : kJpegSizes) {
              if (progressive && scan_per_component) continue;
              const Image image = Photo(size, color == JpegColor::kGray ? 1 : 3, random);
              const std::string bytes = test::WriteJpeg({.color = color,
                                                         .progressive = progressive,
                                                         .scan_per_component = scan_per_component,
                                                         .arithmetic = arithmetic,
                                                         .restart_interval = restart_interval},
                                                        image.view());
              const auto decoded = test::Decode(bytes);
              ASSERT_TRUE(decoded.ok()) << decoded.status();
              // Roundings of luminance and chrominance add up, in blue 1.772 times: to 5 once in
              // a hundred and fifty runs of this test.
              const int bound = color == JpegColor::kYcc ? 6 : 4;
              EXPECT_LE(test::LargestDifference(decoded->image.view(), image.view()), bound);
            }
}

TEST(JpegTest, DecodesSubsampledColours) {
  std::mt19937 random = test::FreshRandom();
  for (bool progressive : {false, true})
    for (Size sampling : {Size{2, 2}, Size{2, 1}, Size{1, 2}, Size{4, 1}, Size{4, 2}}) {
      const Image image = Photo({83, 61}, 3, random);
      const auto decoded = test::Decode(
          test::WriteJpeg({.progressive = progressive, .luma_sampling = sampling}, image.view()));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_LE(test::LargestDifference(decoded->image.view(), image.view()), 60);
    }
}

// The samples as stored, by libjpeg: the loss of the compression is not the conversion's.
Image DecodeCmyk(const std::string& bytes) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_CMYK;
  jpeg_start_decompress(&info);
  Image image({static_cast<int>(info.output_width), static_cast<int>(info.output_height), 4,
               SampleType::kU8});
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.mutable_view().row(static_cast<int>(info.output_scanline));
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_destroy_decompress(&info);
  return image;
}

// `segment` replaces the Adobe marker.
std::string ReplaceAdobeMarker(std::string bytes, std::string_view segment) {
  const size_t at = bytes.find("\xff\xee");
  EXPECT_NE(at, std::string::npos);
  constexpr size_t kMarkerBytes = 2 + 14;
  return bytes.replace(at, kMarkerBytes, segment);
}

// Broken ones by their header are of CMYK. Parts of profiles may be of any size.
TEST(JpegTest, ProfilesOfCmykAreToldOnceAndTruly) {
  std::mt19937 random = test::FreshRandom();
  const std::string whole = test::CmykProfile();
  std::string no_table = whole;
  for (const char* const tag : {"A2B0", "A2B1", "A2B2"})
    if (const size_t at = no_table.find(tag); at != no_table.npos) no_table.replace(at, 4, "xxxx");
  const std::string sentence = "JPEG: its CMYK colours are turned into sRGB ",
                    other =
                        sentence + "as browsers do, without its profile, which describes no CMYK",
                    by_it = sentence + "by its profile if that can be applied, else as browsers do";
  struct Case {
    std::string profile, header;
    bool is_broken;
  };
  const Case cases[] = {{"", sentence + "without a profile, as browsers do", false},
                        {whole, by_it, false},
                        {no_table, by_it, true},
                        {whole.substr(0, 60), by_it, true},
                        {test::SrgbProfile(), other, false},
                        {test::TestProfile(true, 200), other, false},
                        {"no profile", other, false}};
  const Image source = Photo({20, 10}, 4, random);
  for (const Case& c : cases)
    for (const size_t part_bytes : {size_t{7}, size_t{65519}}) {
      SCOPED_TRACE(::testing::Message() << c.profile.size() << ' ' << part_bytes);
      if (c.profile.size() / part_bytes >= 255) continue;
      std::string bytes = test::WriteJpeg({.color = JpegColor::kCmyk}, source.view());
      std::string parts;
      const size_t count = (c.profile.size() + part_bytes - 1) / part_bytes;
      for (size_t i = 0; i < count; ++i) {
        const std::string part = c.profile.substr(i * part_bytes, part_bytes);
        const size_t length = 2 + 12 + 2 + part.size();
        const char head[] = {'\xff', '\xe2', static_cast<char>(length >> 8),
                             static_cast<char>(length)};
        const char number[] = {static_cast<char>(i + 1), static_cast<char>(count)};
        parts.append(head, sizeof head).append("ICC_PROFILE\0", 12);
        parts.append(number, sizeof number).append(part);
      }
      const auto decoded = test::Decode(bytes.insert(2, parts));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_THAT(decoded->header.warnings, ElementsAre(c.header));
      EXPECT_EQ(decoded->warnings.size(), c.is_broken ? 1u : 0u);
      if (c.is_broken) {
        EXPECT_EQ(decoded->warnings[0],
                  "JPEG: the colour profile of CMYK cannot be applied and is left out");
      }
      EXPECT_EQ(decoded->metadata.icc_profile, "");
    }
}

// 255 is no ink, whether an Adobe marker says so or not: as all viewers take it.
TEST(JpegTest, ConvertsCmykToRgb) {
  std::mt19937 random = test::FreshRandom();
  constexpr std::string_view kNone = "";
  constexpr std::string_view kShort(
      "\xff\xee\0\x07"
      "Adobe",
      9);
  constexpr std::string_view kShortByOne(
      "\xff\xee\0\x0d"
      "Adobe\0\x64\0\0\0\0",
      15);
  constexpr std::string_view kForeign(
      "\xff\xee\0\x0e"
      "adobe\0\x64\0\0\0\0\0",
      16);
  for (JpegColor color : {JpegColor::kCmyk, JpegColor::kYcck})
    for (std::string_view marker :
         {std::string_view("whole"), kNone, kShort, kShortByOne, kForeign})
      for (Size size : kJpegSizes) {
        if (color == JpegColor::kYcck && marker != "whole") continue;  // only the marker tells YCCK
        const Image source = Photo(size, 4, random);
        std::string bytes = test::WriteJpeg(
            {.color = color, .icc_profile = test::TestProfile(false, 200)}, source.view());
        if (marker != "whole") bytes = ReplaceAdobeMarker(bytes, marker);
        const Image cmyk = DecodeCmyk(bytes);
        const auto decoded = test::Decode(bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(decoded->header.spec, (ImageSpec{size.width, size.height, 3, SampleType::kU8}));
        EXPECT_EQ(decoded->metadata.icc_profile, "");  // it describes no CMYK
        EXPECT_THAT(decoded->header.warnings,
                    Contains("JPEG: its CMYK colours are turned into sRGB as browsers do, without "
                             "its profile, which describes no CMYK"));
        EXPECT_THAT(decoded->warnings, IsEmpty());
        Image expected(decoded->header.spec);
        for (int y = 0; y < size.height; ++y)
          for (int x = 0; x < size.width; ++x)
            for (int c = 0; c < 3; ++c) {
              const double ink = cmyk.view().row(y)[4 * x + c] / 255.0;
              const double key = cmyk.view().row(y)[4 * x + 3] / 255.0;
              expected.mutable_view().row(y)[3 * x + c] = std::lround(255 * ink * key);
            }
        EXPECT_LE(test::LargestDifference(decoded->image.view(), expected.view()), 1);
      }
}

TEST(JpegTest, ConvertsCmykByItsProfile) {
  std::mt19937 random = test::FreshRandom();
  const std::string profile = test::CmykProfile();
  for (const JpegColor color : {JpegColor::kCmyk, JpegColor::kYcck})
    for (const bool adobe : {false, true}) {
      if (color == JpegColor::kYcck && !adobe) continue;
      const Image source = Photo({71, 50}, 4, random);
      const std::string bytes = test::WriteJpeg(
          {.color = color, .adobe_marker = adobe, .icc_profile = profile}, source.view());
      const auto decoded = test::Decode(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->metadata.icc_profile, "");
      EXPECT_THAT(decoded->header.warnings, Contains(HasSubstr("sRGB by its profile")));
      const Image cmyk = DecodeCmyk(bytes);
      Image expected(decoded->header.spec);
      for (int y = 0; y < cmyk.spec().height_px; ++y)
        for (int x = 0; x < cmyk.spec().width_px; ++x) {
          const uint8_t* inks = cmyk.view().row(y) + 4 * x;
          const auto ink = [inks](int i) { return 1 - inks[i] / 255.0; };
          const std::array<double, 3> rgb = test::SrgbOfInks(ink(0), ink(1), ink(2), ink(3));
          for (int c = 0; c < 3; ++c)
            expected.mutable_view().row(y)[3 * x + c] = std::lround(rgb[c]);
        }
      EXPECT_LE(test::LargestDifference(decoded->image.view(), expected.view()), 3);
    }
}

TEST(JpegTest, AppliesEveryOrientation) {
  std::mt19937 random = test::FreshRandom();
  for (int channels : {1, 3})
    for (Size size : kJpegSizes) {
      const Image image = Photo(size, channels, random);
      test::JpegFile file = {.color = channels == 1 ? JpegColor::kGray : JpegColor::kYcc};
      const auto stored = test::Decode(test::WriteJpeg(file, image.view()));
      ASSERT_TRUE(stored.ok());
      for (int orientation = 1; orientation <= 8; ++orientation) {
        SCOPED_TRACE(orientation);
        file.exif = test::ExifSegment(orientation, test::RandomInt(random, 0, 1) == 1);
        const std::string bytes = test::WriteJpeg(file, image.view());
        MemorySource source(bytes);
        const auto decoder = OpenImageDecoder(source, {});
        ASSERT_TRUE(decoder.ok()) << decoder.status();
        EXPECT_EQ(static_cast<int>((*decoder)->header().orientation), orientation);
        const auto rows = test::ReadAllInPortions(**decoder, random);
        ASSERT_TRUE(rows.ok()) << rows.status();
        EXPECT_TRUE(test::SameImages(rows->view(),
                                     test::TurnUpright(stored->image.view(), orientation).view()));
      }
    }
}

TEST(JpegTest, IgnoresNonsenseInExif) {
  std::mt19937 random = test::FreshRandom();
  const Image image = Photo({20, 10}, 3, random);
  const std::string good = test::ExifSegment(6, false);
  std::vector<std::string> segments = {"", "Exif", "http://ns.adobe.com/xap/1.0/",
                                       test::ExifSegment(0, true), test::ExifSegment(9, false)};
  for (size_t length = 6; length < good.size() - 6; ++length)
    segments.push_back(good.substr(0, length));
  std::string loop = good;
  loop.replace(10, 4, "\xff\xff\xff\xff");  // where the directory is
  segments.push_back(loop);
  for (const std::string& exif : segments) {
    const auto decoded = test::Decode(test::WriteJpeg({.exif = exif}, image.view()));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->header.orientation, Orientation::kIdentity);
  }
}

TEST(JpegTest, SubsamplesColoursBelowQuality90) {
  std::mt19937 random = test::FreshRandom();
  const Image image = Photo({32, 32}, 3, random);
  for (int quality : {89, 90}) {
    const auto bytes =
        test::Encode(image.view(), {.format = ImageFormat::kJpeg, .quality = quality});
    ASSERT_TRUE(bytes.ok());
    const size_t frame = bytes->find("\xff\xc0");
    ASSERT_NE(frame, std::string::npos);
    EXPECT_EQ(static_cast<uint8_t>((*bytes)[frame + 11]), quality >= 90 ? 0x11 : 0x22);
  }
}

// libjpeg would go on with gray blocks.
TEST(JpegTest, ItsHeaderTellsHowItWasCompressed) {
  std::mt19937 random = test::FreshRandom();
  for (const int channels : {1, 3}) {
    const Image image = test::PhotoImage({33, 17, channels, SampleType::kU8}, random);
    for (int quality = 1; quality <= 100; ++quality) {
      const auto file =
          test::Encode(image.view(), {.format = ImageFormat::kJpeg, .quality = quality});
      ASSERT_TRUE(file.ok());
      const auto header =
          ParseImageHeader({reinterpret_cast<const uint8_t*>(file->data()), file->size()}, {});
      ASSERT_TRUE(header.ok() && header->has_value());
      ASSERT_TRUE((*header)->jpeg.has_value());
      EXPECT_EQ((*header)->jpeg->quality, quality);
      EXPECT_EQ((*header)->jpeg->subsampled, channels == 3 && quality < 90) << quality;
    }
  }
}

TEST(JpegTest, OtherFormatsTellNothingOfIt) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 8, 3, SampleType::kU8}, random);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    const auto file = test::Encode(image.view(), {.format = format});
    ASSERT_TRUE(file.ok());
    const auto header =
        ParseImageHeader({reinterpret_cast<const uint8_t*>(file->data()), file->size()}, {});
    ASSERT_TRUE(header.ok() && header->has_value());
    EXPECT_FALSE((*header)->jpeg.has_value());
  }
}

TEST(JpegTest, DamagedPixelDataAreAnError) {
  std::mt19937 random = test::FreshRandom();
  const Image image = Photo({64, 64}, 3, random);
  std::string bytes = test::WriteJpeg({.restart_interval = 4}, image.view());
  const size_t restart = bytes.find("\xff\xd1");
  ASSERT_NE(restart, std::string::npos);
  bytes[restart + 1] = '\xd6';  // out of turn
  const absl::Status status = test::Decode(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("JPEG: Corrupt JPEG data"));
}

TEST(JpegTest, SegmentsThatAreLeftOutAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const std::string plain = test::WriteJpeg({}, Photo({20, 10}, 3, random).view());
  for (int number = 0; number < 16; ++number) {
    std::string bytes = plain;
    bytes.insert(20, std::string("\xff") + static_cast<char>(0xE0 + number) +
                         std::string("\0\x08maker\0", 8));
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_THAT(decoded->header.warnings,
                Contains("JPEG: segments are left out: APP" + std::to_string(number)));
  }
  EXPECT_TRUE(test::Decode(plain)->header.warnings.empty());
}

// A profile's part `number` of `count`, as a segment.
std::string ProfilePart(int number, int count, std::string_view bytes) {
  std::string part("ICC_PROFILE\0", 12);
  part += {static_cast<char>(number), static_cast<char>(count)};
  part += bytes;
  const size_t length = part.size() + 2;
  return std::string("\xff\xe2") +
         std::string({static_cast<char>(length >> 8), static_cast<char>(length)}) + part;
}

TEST(JpegTest, ProfilesOfWrongPartsAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const std::string profile = test::TestProfile(/*gray=*/false, 300);
  const auto part = [&profile](int number, int count) {
    return ProfilePart(number, count, std::string_view(profile).substr(150 * (number == 2), 150));
  };
  const std::string none = ProfilePart(1, 1, ""),
                    cut = std::string("\xff\xe2\0\x0eICC_PROFILE\0", 16);
  struct Case {
    const char* name;
    std::string segments;
    bool is_read;
  };
  const Case cases[] = {
      {"in order", part(1, 2) + part(2, 2), true},
      {"in another order", part(2, 2) + part(1, 2), true},
      {"one of two", part(1, 2), false},
      {"the second of two", part(2, 2), false},
      {"a part twice", part(1, 2) + part(1, 2), false},
      {"counted from 0", part(0, 2) + part(1, 2), false},
      {"beyond the count", part(1, 1) + part(2, 1), false},
      {"two counts", part(1, 2) + part(2, 3), false},
      {"a count of 0", part(1, 0), false},
      {"no bytes", none, false},
  };
  for (const int channels : {1, 3, 4}) {
    const std::string plain = test::WriteJpeg({.color = channels == 1   ? JpegColor::kGray
                                                        : channels == 3 ? JpegColor::kYcc
                                                                        : JpegColor::kCmyk},
                                              Photo({20, 10}, channels, random).view());
    for (const Case& c : cases) {
      SCOPED_TRACE(::testing::Message() << c.name << ", " << channels << " channels");
      std::string bytes = plain;
      bytes.insert(2, c.segments);
      const auto decoded = test::Decode(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      const auto names_loss =
          Contains(HasSubstr("JPEG: the colour profile is left out: its parts"));
      if (c.is_read) {
        EXPECT_EQ(decoded->metadata.icc_profile, channels == 4 ? "" : profile);
        EXPECT_THAT(decoded->header.warnings, ::testing::Not(names_loss));
      } else {
        EXPECT_EQ(decoded->metadata.icc_profile, "");
        EXPECT_THAT(decoded->header.warnings, names_loss);
      }
      if (channels == 4) {
        EXPECT_THAT(decoded->header.warnings,
                    Contains(HasSubstr(c.is_read ? "without its profile" : "without a profile")));
      }
    }
    std::string bytes = plain;
    bytes.insert(2, part(1, 2) + cut + part(2, 2));  // which libjpeg passes over, too
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->metadata.icc_profile, channels == 4 ? "" : profile);
    EXPECT_THAT(decoded->header.warnings, Contains("JPEG: segments are left out: APP2"));
  }
}

TEST(JpegTest, ToleratesStrayBytesBetweenSegments) {
  std::mt19937 random = test::FreshRandom();
  const Image image = Photo({20, 10}, 3, random);
  std::string bytes = test::WriteJpeg({}, image.view());
  bytes.insert(20, std::string("\0\0\x12", 3));  // after JFIF's segment
  EXPECT_TRUE(test::Decode(bytes).ok()) << test::Decode(bytes).status();
}

}  // namespace
}  // namespace upscaled
