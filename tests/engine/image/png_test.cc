// PNG files of every type, against pixels worked out from the stored samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6;
constexpr std::pair<int, int> kKinds[] = {  // color type, bit depth
    {kGray, 1},    {kGray, 2},      {kGray, 4},       {kGray, 8},    {kGray, 16},
    {kRgb, 8},     {kRgb, 16},      {kPalette, 1},    {kPalette, 2}, {kPalette, 4},
    {kPalette, 8}, {kGrayAlpha, 8}, {kGrayAlpha, 16}, {kRgba, 8},    {kRgba, 16}};
constexpr Size kPngSizes[] = {{1, 1}, {2, 5}, {7, 3}, {9, 9}, {37, 29}};

void ExpectDecodesAsStored(const test::PngFile& file) {
  const std::string bytes = test::WritePng(file);
  const auto decoded = test::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
}

TEST(PngTest, DecodesEveryKind) {
  std::mt19937 random = test::FreshRandom();
  for (const auto& [color_type, depth] : kKinds)
    for (Size size : kPngSizes)
      for (bool interlaced : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << "color type " << color_type << ", depth " << depth << ", " << size.width
                     << " x " << size.height << ", interlaced " << interlaced);
        test::PngFile file = test::RandomPng(size.width, size.height, depth, color_type, random);
        file.interlaced = interlaced;
        ExpectDecodesAsStored(file);
      }
}

TEST(PngTest, TransparencyBecomesAlpha) {
  std::mt19937 random = test::FreshRandom();
  for (const auto& [color_type, depth] : kKinds) {
    if (color_type > kPalette) continue;
    for (bool interlaced : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "color type " << color_type << ", depth " << depth);
      test::PngFile file = test::RandomPng(21, 17, depth, color_type, random);
      file.interlaced = interlaced;
      if (color_type == kPalette) {
        // Entries past its end are opaque.
        file.palette_alpha.resize(test::RandomInt(random, 1, 1 << depth));
        for (uint8_t& alpha : file.palette_alpha) alpha = test::RandomInt(random, 0, 255);
      } else {
        file.transparent = test::StoredPixel(file, 4, 3);
      }
      const Image expected = test::ExpectedPixels(file);
      EXPECT_TRUE(expected.spec().has_alpha());
      ExpectDecodesAsStored(file);
    }
  }
}

TEST(PngTest, RowsOfAnInterlacedImageComeInAnyPortions) {
  std::mt19937 random = test::FreshRandom();
  test::PngFile file = test::RandomPng(40, 31, 8, kRgb, random);
  file.interlaced = true;
  const std::string bytes = test::WritePng(file);
  test::SlowSource source(bytes, 7);
  const auto decoder = OpenImageDecoder(source, {});
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  const auto image = test::ReadAllInPortions(**decoder, random);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(test::SameImages(image->view(), test::ExpectedPixels(file).view()));
}

TEST(PngTest, ColoursStayAsStoredWhateverGammaSays) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(16, 16, 8, kRgb, random);
  std::string bytes = test::WritePng(file);
  const std::string gamma = test::PngChunk("gAMA", std::string_view("\0\1\x86\xA0", 4));  // linear
  bytes.insert(33, gamma + test::PngChunk("cHRM", std::string(32, '\1')));
  const auto decoded = test::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
}

// Puts chunks before the pixels.
std::string WithChunks(std::string bytes, const std::string& chunks) {
  bytes.insert(bytes.find("IDAT") - 4, chunks);
  return bytes;
}

TEST(PngTest, TransparencyOfAnotherLengthIsPassedOverAsInBrowsers) {
  std::mt19937 random = test::FreshRandom();
  for (const auto& [color_type, depth] : kKinds) {
    test::PngFile file = test::RandomPng(16, 16, depth, color_type, random);
    const int entries = 1 << depth;
    std::vector<int> lengths = {0, 1, 3, 8, 257};
    if (color_type == kPalette) {
      file.palette.resize(3 * test::RandomInt(random, 1, entries));
      for (auto& row : file.rows) std::fill(row.begin(), row.end(), 0);
      lengths = {0, static_cast<int>(file.palette.size()) / 3 + 1, 257};
    }
    if (color_type > kPalette) lengths.insert(lengths.end(), {2, 6});
    const Image expected = test::ExpectedPixels(file);
    const std::string bytes = test::WritePng(file);
    for (const int length : lengths) {
      SCOPED_TRACE(::testing::Message() << "color type " << color_type << ", depth " << depth
                                        << ", " << length << " bytes");
      const auto decoded =
          test::Decode(WithChunks(bytes, test::PngChunk("tRNS", std::string(length, '\0'))));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_TRUE(test::SameImages(decoded->image.view(), expected.view()));
    }
  }
}

TEST(PngTest, TransparencyInAnotherPlaceIsPassedOverAsInBrowsers) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile rgb = test::RandomPng(16, 16, 8, kRgb, random);
  const test::PngFile palette = test::RandomPng(16, 16, 8, kPalette, random);
  const std::string before_suggested_palette =
      WithChunks(test::WritePng(rgb), test::PngChunk("tRNS", std::string(6, '\0')) +
                                          test::PngChunk("PLTE", std::string(3, '\0')));
  std::string before_palette = test::WritePng(palette);
  before_palette.insert(33, test::PngChunk("tRNS", std::string(6, '\0')));
  for (const auto& [bytes, file] :
       {std::pair(before_suggested_palette, rgb), std::pair(before_palette, palette)}) {
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
  }
}

TEST(PngTest, CorruptTransparencyIsAnErrorNotAnotherImage) {
  std::mt19937 random = test::FreshRandom();
  std::string bytes = test::WritePng(test::RandomPng(16, 16, 8, kRgb, random));
  std::string chunk = test::PngChunk("tRNS", std::string(6, '\0'));
  chunk.back() ^= 1;  // in its CRC
  bytes.insert(33, chunk);
  const absl::Status status = test::Decode(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tRNS"));
}

// Noise does not deflate: zlib's two bytes, one stored block with a header of five, and a checksum
// of four fill the one chunk of pixels.
constexpr int kNoiseSide = 48, kNoiseBytes = kNoiseSide * (1 + 3 * kNoiseSide);
constexpr int kNoiseBegin = 41, kNoiseBlock = kNoiseBegin + 2, kNoisePixels = kNoiseBlock + 5,
              kNoiseChecksum = kNoisePixels + kNoiseBytes, kNoiseEnd = kNoiseChecksum + 4;

test::PngFile Noise(std::mt19937& random) {
  return test::RandomPng(kNoiseSide, kNoiseSide, 8, kRgb, random);
}

TEST(PngTest, CorruptPixelsAreAnError) {
  std::mt19937 random = test::FreshRandom();
  const std::string good = test::WritePng(Noise(random));
  ASSERT_EQ(good.size(), size_t{kNoiseEnd} + 4 + 12);
  for (int i = 0; i < 100; ++i) {
    std::string bytes = good;
    const int at = test::RandomInt(random, kNoisePixels, kNoiseChecksum - 1);
    bytes[at] ^= 1 << test::RandomInt(random, 0, 7);
    const absl::Status status = test::Decode(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "byte " << at << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("PNG: "));
  }
}

// Some bits around them may be wrong without harm: whether the block is the last one, the bits
// behind its kind, and the checksum if the CRC is right.
TEST(PngTest, CorruptBytesAroundThePixelsAreAnErrorOrAWarning) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = Noise(random);
  const std::string good = test::WritePng(file);
  ASSERT_EQ(good.size(), size_t{kNoiseEnd} + 4 + 12);
  int harmless = 0;
  for (int at = kNoiseBegin; at < kNoiseEnd; at = at + 1 == kNoisePixels ? kNoiseChecksum : at + 1)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] ^= 1 << bit;
      const auto decoded = test::Decode(bytes);
      if (!decoded.ok()) {
        EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << decoded.status();
        continue;
      }
      ++harmless;
      EXPECT_TRUE(at == kNoiseBlock || at >= kNoiseChecksum) << at;
      EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view())) << at;
      EXPECT_THAT(decoded->warnings, Not(IsEmpty())) << "byte " << at << ", bit " << bit;
    }
  EXPECT_GT(harmless, 0);
}

TEST(PngTest, ChunksBehindThePixelsAreNamed) {
  std::mt19937 random = test::FreshRandom();
  for (const bool interlaced : {false, true}) {
    test::PngFile file = test::RandomPng(9, 7, 8, 2, random);
    file.interlaced = interlaced;
    std::string bytes = test::WritePng(file);
    bytes.insert(bytes.size() - 12,
                 test::PngChunk("tIME", std::string(7, 1)) + test::PngChunk("iCCP", "late") +
                     test::PngChunk("tEXt", std::string("Title\0kept", 10)) +
                     test::PngChunk("abCd", "x") + test::PngChunk("tIME", std::string(7, 2)));
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
    EXPECT_EQ(decoded->late_metadata.texts.size(), 1u);
    EXPECT_THAT(decoded->warnings,
                ElementsAre("PNG: chunks behind the pixels are left out: tIME, iCCP, abCd"));
  }
}

TEST(PngTest, OfManyUnknownChunksSomeAreNamed) {
  std::mt19937 random = test::FreshRandom();
  std::string bytes = test::WritePng(test::RandomPng(9, 7, 8, 2, random));
  std::string chunks;
  for (char c = 'a'; c <= 'z'; ++c)
    chunks += test::PngChunk(std::string("ab") + 'C' + c, "x") + test::PngChunk("abCa", "y");
  constexpr size_t kIhdrEnd = 33;
  bytes.insert(kIhdrEnd, chunks);
  const auto decoded = test::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->header.warnings,
              ElementsAre("PNG: chunks are left out: abCa, abCb, abCc, abCd, abCe, abCf, abCg, "
                          "abCh, abCi, abCj, abCk, abCl, abCm, abCn, abCo, abCp and others"));
}

TEST(PngTest, AnimationsAreReadAsOneImageAndSayHowManyFramesAreLeftOut) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(5, 4, 8, 2, random);
  const std::string animation = test::PngChunk("acTL", std::string("\0\0\0\7\0\0\0\0", 8));
  const std::string control = test::PngChunk("fcTL", std::string(26, '\0'));
  constexpr size_t kIhdrEnd = 33;
  for (const bool still_is_frame : {false, true}) {
    std::string bytes = test::WritePng(file);
    bytes.insert(kIhdrEnd, animation + (still_is_frame ? control : ""));
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
    EXPECT_EQ(decoded->header.warnings,
              std::vector<std::string>{
                  still_is_frame
                      ? "PNG: it is an animation of 7 frames: the first is computed, 6 left out"
                      : "PNG: it is an animation of 7 frames: the image that stands for it is "
                        "computed, 7 left out"});
  }
}

}  // namespace
}  // namespace upscaled
