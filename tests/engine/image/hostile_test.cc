// Truncated files and bombs: a clear status, at once, and without their requested memory.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/image/codec.h"
#include "tests/support/bombs.h"
#include "tests/support/odd_files.h"
#include "tests/support/peak_memory.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

constexpr size_t kIhdrEnd = 33;
// Behind the last pixel stand at most, in PNG, the checksum of a chunk of its own, and IEND.
constexpr size_t kMaxEndBytes = 4 + 16 + 12;
constexpr size_t kBombBytes = size_t{64} << 20;

// Decodes `file` and expects the process to grow by little at any time.
absl::StatusOr<test::Decoded> DecodeBomb(std::string_view file, const DecodeLimits& limits = {}) {
  const test::PeakMemory peak;
  absl::StatusOr<test::Decoded> decoded = test::Decode(file, limits);
  EXPECT_LT(peak.grown_bytes(), 32 << 20);
  return decoded;
}

// Cut before the last pixel has come; cuts behind it are in damage_test.cc.
TEST(HostileTest, TruncationBeforeTheLastPixelIsAnError) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({61, 47, 3, SampleType::kU8}, random);
  std::vector<std::string> files;
  for (ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp})
    for (int quality : {80, 100})
      files.push_back(*test::Encode(image.view(), {.format = format, .quality = quality}));
  files.push_back(test::WriteJpeg({.progressive = true}, image.view()));
  files.push_back(test::WriteJpeg({.exif = test::ExifSegment(6, true)}, image.view()));
  test::PngFile interlaced = test::RandomPng(61, 47, 8, 2, random);
  interlaced.interlaced = true;
  files.push_back(test::WritePng(interlaced));

  for (size_t i = 0; i < files.size(); ++i) {
    const auto whole = test::Decode(files[i]);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_TRUE(whole->warnings.empty());
    for (size_t length = 0; length < files[i].size();
         length += test::RandomInt(random, 1, static_cast<int>(files[i].size() / 60))) {
      const auto cut = test::Decode(std::string_view(files[i]).substr(0, length));
      if (length + kMaxEndBytes > files[i].size() && cut.ok()) {
        EXPECT_TRUE(test::SameImages(cut->image.view(), whole->image.view()));
        EXPECT_FALSE(cut->warnings.empty());
        continue;
      }
      EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument)
          << "file " << i << ", " << length << " of " << files[i].size()
          << " bytes: " << cut.status();
    }
  }
}

TEST(HostileTest, ErrorsStay) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({61, 47, 3, SampleType::kU8}, random);
  for (ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const std::string bytes = *test::Encode(image.view(), {.format = format});
    MemorySource source(std::string_view(bytes).substr(0, bytes.size() * 2 / 3));
    const auto decoder = OpenImageDecoder(source, {});
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    const absl::Status status = test::ReadAll(**decoder).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("truncated"));
    EXPECT_EQ(test::ReadAll(**decoder).status(), status);
  }
}

TEST(HostileTest, HugePngIsRefusedByItsFirstBytes) {
  const std::string header = test::HugePng();
  const absl::Status status = ParseImageHeader(AsBytes(header).first(kIhdrEnd - 4), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "PNG: the image has 10000000000 pixels (100000 x 100000); the limit is 100000000");
  EXPECT_EQ(DecodeBomb(header).status(), status);

  EXPECT_EQ(DecodeBomb(header, {.max_side_px = 65535}).status().message(),
            "PNG: the image is 100000 x 100000 px; the limit is 65535 px a side");
}

std::string InflationError(std::string_view chunk, size_t limit) {
  return absl::StrCat("PNG: the compressed metadata inflate to at least ", limit + 1,
                      " bytes by the chunk ", ToAbsl(chunk), "; the limit is ", limit);
}

TEST(HostileTest, CompressedMetadataThatInflateBeyondTheLimitAreRefused) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(8, 8, 8, 2, random);
  for (const std::string_view chunk : {"iCCP", "zTXt", "iTXt"})
    for (const bool after_pixels : {false, true}) {
      if (chunk == "iCCP" && after_pixels) continue;  // where nobody reads it
      const std::string bomb = test::MetadataBombPng(file, chunk, kBombBytes, after_pixels);
      const absl::Status status = DecodeBomb(bomb).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(status.message(), InflationError(chunk, size_t{4} << 20));
      EXPECT_EQ(ParseImageHeader(AsBytes(bomb), {}).status().ok(), after_pixels);
      test::SlowSource slow(bomb, test::RandomInt(random, 1, 5));
      absl::StatusOr<std::unique_ptr<ImageDecoder>> decoder = OpenImageDecoder(slow, {});
      EXPECT_EQ(decoder.ok() ? test::ReadAll(**decoder).status() : decoder.status(), status);
    }
}

TEST(HostileTest, CompressedMetadataCountTogether) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(8, 8, 8, 2, random);
  const size_t limit = test::RandomInt(random, 10'000, 100'000);
  const size_t first = test::RandomInt(random, 2000, 9000);
  const auto decode = [&](size_t second) {
    std::string png = test::MetadataBombPng(file, "iTXt", first);
    const std::string text = test::MetadataBombPng(file, "zTXt", second);
    png.insert(kIhdrEnd, text.substr(kIhdrEnd, text.size() - test::WritePng(file).size()));
    return test::Decode(png, {.max_metadata_bytes = limit});
  };
  const auto decoded = decode(limit - first);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
  EXPECT_EQ(decode(limit - first + 1).status().message(), InflationError("iTXt", limit));
}

TEST(HostileTest, MetadataThatAreNotCompressedOrCorruptDoNotInflate) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(8, 8, 8, 2, random);
  const std::string zeros = test::DeflateZeros("", 100'000);
  const std::string not_compressed("Comment\0\0\0en\0Kommentar\0", 23);
  const std::string not_zlib("Comment\0\0x", 10);
  for (const std::string& chunk :
       {test::PngChunk("iTXt", not_compressed + zeros), test::PngChunk("zTXt", not_zlib + zeros),
        test::PngChunk("zTXt", ""), test::PngChunk("iTXt", "x")}) {
    std::string png = test::WritePng(file);
    png.insert(kIhdrEnd, chunk);
    const auto decoded = test::Decode(png, {.max_metadata_bytes = 50'000});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
  }
}

TEST(HostileTest, PixelsThatGoOnAfterTheLastRowAreRefused) {
  for (const bool interlaced : {false, true}) {
    const absl::Status status = DecodeBomb(test::PixelBombPng(kBombBytes, interlaced)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(status.message(),
              "PNG: the IDAT chunks go on for at least 4097 bytes after the last row; the limit "
              "is 4096");
    // Some padding is served.
    const auto padded = DecodeBomb(test::PixelBombPng(2 << 20, interlaced));
    ASSERT_TRUE(padded.ok()) << padded.status();
    EXPECT_EQ(padded->header.spec, (ImageSpec{8, 8, 3, SampleType::kU8}));
  }
}

TEST(HostileTest, WebpWithThousandsOfHuffmanCodesIsRefused) {
  std::mt19937 random = test::FreshRandom();
  const std::string refusal =
      "WebP: the image has Huffman codes for 65536 blocks; the limit is 2600";
  for (const std::string& bomb : {test::HuffmanBombWebp({1024, 1024}),
                                  test::HuffmanBombWebp({1024, 1024}, /*with_transform=*/true),
                                  test::HuffmanBombAlphaWebp({1024, 1024}, random)}) {
    const absl::Status status = DecodeBomb(bomb).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(status.message(), refusal);
  }
}

TEST(HostileTest, WebpWithAsManyHuffmanCodesAsLibwebpWritesStaysWithinItsBound) {
  std::mt19937 random = test::FreshRandom();
  constexpr Size kSize = {208, 200};  // 2600 blocks
  for (const std::string& file : {test::HuffmanBombWebp(kSize), test::HuffmanBombWebp(kSize, true),
                                  test::HuffmanBombAlphaWebp(kSize, random)}) {
    const ImageHeader header = **ParseImageHeader(AsBytes(file), {});
    const test::PeakMemory peak;
    const auto decoded = test::Decode(file);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_LT(peak.grown_bytes(), static_cast<int64_t>(header.decoder_bytes));
  }
}

TEST(HostileTest, JpegOfManyScansIsRefused) {
  std::mt19937 random = test::FreshRandom();
  const absl::Status status = DecodeBomb(test::ManyScansJpeg(5000, random)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(status.message(), "JPEG: the image has at least 101 scans; the limit is 100");
}

TEST(HostileTest, TinyJpegOfHugeSizeIsRefusedByItsHeader) {
  std::mt19937 random = test::FreshRandom();
  const absl::Status status = DecodeBomb(test::HugeJpeg(random)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4290250000 pixels (65500 x 65500)"));
}

TEST(HostileTest, MetadataWithoutEndAreRefused) {
  EXPECT_THAT(std::string(DecodeBomb(test::MetadataJpeg(1000)).status().message()),
              HasSubstr("the limit is 4194304"));

  std::string png = "\x89PNG\r\n\x1a\n";
  png += test::PngChunk("IHDR", std::string_view("\0\0\0\1\0\0\0\1\x08\x02\0\0\0", 13));
  png += std::string("\x7f\xff\xff\xff", 4) + "tEXt";  // a chunk of 2 GiB
  const absl::Status status = DecodeBomb(png).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 2147483"));
}

}  // namespace
}  // namespace upscaled
