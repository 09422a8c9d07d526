// PNG's chunks for the samples' colours: carried to PNG, a profile for the other formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/image/codec.h"
#include "tests/support/colour_profiles.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::Each;
using ::testing::FieldsAre;
using ::testing::IsEmpty;

std::string Be32(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t number : numbers)
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

const std::string kSrgbChromaticities =
    Be32({31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000});
const std::string kAdobeChromaticities =
    Be32({31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000});

std::string Cicp(int primaries, int transfer, int matrix = 0, int full_range = 1) {
  return {static_cast<char>(primaries), static_cast<char>(transfer), static_cast<char>(matrix),
          static_cast<char>(full_range)};
}

// A PNG file with these chunks before its pixels.
std::string PngWith(const std::vector<ColourChunk>& chunks, int channels, std::mt19937& random) {
  const Image image = test::PhotoImage({20, 10, channels, SampleType::kU8}, random);
  std::string png = *test::Encode(image.view(), {});
  constexpr size_t kAfterIhdr = 33;
  for (const ColourChunk& chunk : chunks)
    png.insert(kAfterIhdr, test::PngChunk(chunk.type, chunk.data));
  return png;
}

ImageMetadata ResultOf(const std::string& png, ImageFormat format, bool gray = false) {
  const auto decoded = test::Decode(png);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  std::vector<std::string> warnings;
  const ImageSpec encoded = OutputSpecFor(format, {20, 10, gray ? 1 : 3, SampleType::kU8});
  ImageMetadata result = MetadataForResult(decoded->metadata, MetadataPolicy::kKeep, format,
                                           encoded, /*too_late=*/false, warnings);
  EXPECT_THAT(warnings, IsEmpty());
  return result;
}

TEST(ColourTest, PngCarriesEveryChunk) {
  std::mt19937 random = test::FreshRandom();
  const std::vector<ColourChunk> chunks = {
      {"gAMA", Be32({100000})}, {"cHRM", kAdobeChromaticities},  {"sRGB", std::string(1, '\1')},
      {"cICP", Cicp(9, 16)},    {"mDCV", std::string(24, '\7')}, {"cLLI", std::string(8, '\5')}};
  const ImageMetadata metadata = ResultOf(PngWith(chunks, 3, random), ImageFormat::kPng);
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU8}, random);
  const auto again = test::Decode(*test::Encode(image.view(), {}, metadata));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->metadata.colour_chunks, ::testing::UnorderedElementsAreArray(chunks));
  EXPECT_EQ(again->header.hdr, "PQ");
}

TEST(ColourTest, ChunksOfTheWrongSizeOrCrcAreLeftOut) {
  std::mt19937 random = test::FreshRandom();
  for (const char* type : {"gAMA", "cHRM", "sRGB", "cICP", "mDCV", "cLLI"}) {
    const auto decoded = test::Decode(PngWith({{type, std::string(5, '\1')}}, 3, random));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_THAT(decoded->metadata.colour_chunks, IsEmpty());
    EXPECT_EQ(decoded->warnings.size(), 1u) << type;
  }
  std::string png = PngWith({{"gAMA", Be32({100000})}}, 3, random);
  png[33 + 8 + 4] ^= 1;  // the chunk's CRC
  const auto decoded = test::Decode(png);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->metadata.colour_chunks, IsEmpty());
  EXPECT_FALSE(decoded->warnings.empty());
}

TEST(ColourTest, OtherFormatsGetAProfile) {
  std::mt19937 random = test::FreshRandom();
  struct Case {
    const char* name;
    std::vector<ColourChunk> chunks;
    std::array<double, 3> light;    // of 1/4, 1/2, 3/4
    std::array<double, 4> primary;  // x, y of red and of green, under D50
  };
  const std::array<double, 3> srgb = {0.0508761, 0.2140411, 0.5225216};
  const auto power = [](double gamma) {
    return std::array<double, 3>{std::pow(0.25, gamma), std::pow(0.5, gamma),
                                 std::pow(0.75, gamma)};
  };
  const std::array<double, 4> of_srgb = {0.6484, 0.3309, 0.3212, 0.5979};
  const std::array<double, 4> of_adobe = {0.6484, 0.3309, 0.2302, 0.7016};
  const std::array<double, 4> of_p3 = {0.6820, 0.3192, 0.2852, 0.6754};
  const Case cases[] = {
      {"gAMA 1.0", {{"gAMA", Be32({100000})}}, power(1), of_srgb},
      {"gAMA 1/2.2", {{"gAMA", Be32({45455})}}, power(2.2), of_srgb},
      {"Adobe RGB",
       {{"gAMA", Be32({45455})}, {"cHRM", kAdobeChromaticities}},
       power(2.2),
       of_adobe},
      {"cHRM only", {{"cHRM", kAdobeChromaticities}}, srgb, of_adobe},
      {"P3 by cICP", {{"cICP", Cicp(12, 13)}}, srgb, of_p3},
      {"cICP before all others",
       {{"cICP", Cicp(12, 13)}, {"sRGB", std::string(1, '\0')}, {"gAMA", Be32({100000})}},
       srgb,
       of_p3},
      {"linear by cICP", {{"cICP", Cicp(1, 8)}}, power(1), of_srgb},
      {"gamma 2.2 by cICP", {{"cICP", Cicp(1, 4)}}, power(2.2), of_srgb},
      {"cICP that no profile describes",
       {{"cICP", Cicp(1, 8, /*matrix=*/1)}, {"gAMA", Be32({45455})}},
       power(2.2),
       of_srgb},
  };
  for (const Case& c : cases)
    for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kWebp}) {
      SCOPED_TRACE(c.name);
      const ImageMetadata metadata = ResultOf(PngWith(c.chunks, 3, random), format);
      EXPECT_THAT(metadata.colour_chunks, IsEmpty());
      const test::ProfileSummary profile = test::Summarize(metadata.icc_profile);
      EXPECT_FALSE(profile.gray);
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(profile.light[i], c.light[i], 1e-3);
      for (int i = 0; i < 4; ++i) EXPECT_NEAR(profile.primaries[i], c.primary[i], 2e-3) << i;
      // The same bytes at any time.
      EXPECT_EQ(ResultOf(PngWith(c.chunks, 3, random), format).icc_profile, metadata.icc_profile);
    }
}

TEST(ColourTest, SrgbNeedsNoProfile) {
  std::mt19937 random = test::FreshRandom();
  const std::vector<std::vector<ColourChunk>> all = {
      {},
      {{"sRGB", std::string(1, '\0')}},
      {{"cICP", Cicp(1, 13)}},
      // sRGB wins over the chunks in place of it.
      {{"sRGB", std::string(1, '\0')}, {"gAMA", Be32({45455})}, {"cHRM", kSrgbChromaticities}}};
  for (const auto& chunks : all)
    EXPECT_EQ(ResultOf(PngWith(chunks, 3, random), ImageFormat::kJpeg).icc_profile, "");
}

TEST(ColourTest, GrayGetsAProfileOfGray) {
  std::mt19937 random = test::FreshRandom();
  const std::string png = PngWith({{"gAMA", Be32({100000})}}, 1, random);
  const test::ProfileSummary gray =
      test::Summarize(ResultOf(png, ImageFormat::kJpeg, /*gray=*/true).icc_profile);
  EXPECT_TRUE(gray.gray);
  EXPECT_NEAR(gray.light[1], 0.5, 1e-3);
  // WebP has no gray.
  const test::ProfileSummary colour =
      test::Summarize(ResultOf(png, ImageFormat::kWebp, /*gray=*/true).icc_profile);
  EXPECT_FALSE(colour.gray);
  EXPECT_NEAR(colour.light[1], 0.5, 1e-3);
}

TEST(ColourTest, TheFilesProfileStandsBetweenCicpAndTheRest) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU8}, random);
  const std::string profile = test::TestProfile(false, 400);
  for (const bool cicp : {false, true}) {
    ImageMetadata metadata{.icc_profile = profile};
    metadata.colour_chunks = {{"gAMA", Be32({100000})}};
    if (cicp) metadata.colour_chunks.push_back({"cICP", Cicp(12, 13)});
    const std::string png = *test::Encode(image.view(), {}, metadata);
    EXPECT_EQ(ResultOf(png, ImageFormat::kPng), metadata);
    EXPECT_EQ(ResultOf(png, ImageFormat::kJpeg).icc_profile == profile, !cicp);
  }
}

TEST(ColourTest, HighDynamicRangeIsNamed) {
  std::mt19937 random = test::FreshRandom();
  for (const auto& [transfer, name] :
       {std::pair(16, "PQ"), std::pair(18, "HLG"), std::pair(13, "")})
    EXPECT_EQ(test::Decode(PngWith({{"cICP", Cicp(9, transfer)}}, 3, random))->header.hdr, name);
}

}  // namespace
}  // namespace upscaled
