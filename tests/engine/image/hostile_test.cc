// Truncated files and bombs: a clear status, at once, and without the memory that they ask for.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/engine/image/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

constexpr size_t kIhdrEnd = 33;

constexpr size_t kBombBytes = size_t{256} << 20;

// A line of /proc/self/status, in bytes.
size_t ProcessStatus(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == key + ":") {
      size_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

// Decodes `file` and expects the process to grow by little at any time.
absl::StatusOr<test::Decoded> DecodeBomb(std::string_view file, const DecodeLimits& limits = {}) {
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak is the present size again
  const size_t before = ProcessStatus("VmRSS");
  absl::StatusOr<test::Decoded> decoded = test::Decode(file, limits);
  EXPECT_LT(ProcessStatus("VmHWM"), before + (size_t{32} << 20));
  return decoded;
}

std::string HugePngHeader() {
  const std::string_view ihdr("\0\1\x86\xA0\0\1\x86\xA0\x08\x02\0\0\0", 13);
  return "\x89PNG\r\n\x1a\n" + test::PngChunk("IHDR", ihdr);
}

TEST(HostileTest, TruncationAnywhereIsAnError) {
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
    ASSERT_TRUE(test::Decode(files[i]).ok());
    for (size_t length = 0; length < files[i].size();
         length += test::RandomInt(random, 1, static_cast<int>(files[i].size() / 60))) {
      const absl::Status status =
          test::Decode(std::string_view(files[i]).substr(0, length)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
          << "file " << i << ", " << length << " of " << files[i].size() << " bytes: " << status;
    }
    const absl::Status last =
        test::Decode(std::string_view(files[i]).substr(0, files[i].size() - 1)).status();
    EXPECT_EQ(last.code(), absl::StatusCode::kInvalidArgument) << "file " << i;
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
  const std::string header = HugePngHeader();
  const absl::Status status = ParseImageHeader(AsBytes(header).first(kIhdrEnd - 4), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "PNG: the picture is 100000 x 100000 px; the limit is 65535 px a side");
  EXPECT_EQ(DecodeBomb(header).status(), status);

  DecodeLimits wide;
  wide.max_side_px = 1000000;
  EXPECT_EQ(DecodeBomb(header, wide).status().message(),
            "PNG: the picture has 10000000000 pixels (100000 x 100000); the limit is 100000000");
}

TEST(HostileTest, CompressedTextIsNotInflated) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(8, 8, 8, 2, random);
  const std::string zeros = test::DeflateZeros("", kBombBytes);
  std::string bytes = test::WritePng(file);
  bytes.insert(kIhdrEnd, test::PngChunk("zTXt", std::string("Comment\0\0", 9) + zeros) +
                             test::PngChunk("iTXt", std::string("Comment\0\1\0\0\0", 12) + zeros));
  const auto decoded = DecodeBomb(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), test::ExpectedPixels(file).view()));
}

TEST(HostileTest, ColourProfileOfUnboundedSizeIsLeftOut) {
  std::mt19937 random = test::FreshRandom();
  const test::PngFile file = test::RandomPng(8, 8, 8, 2, random);
  std::string begin = test::TestProfile(false, 1000);
  begin.replace(0, 4, std::string("\x10\0\0\0", 4));  // its size: kBombBytes
  std::string bytes = test::WritePng(file);
  bytes.insert(kIhdrEnd, test::PngChunk("iCCP", std::string("p\0\0", 3) +
                                                    test::DeflateZeros(begin, kBombBytes)));
  const auto decoded = DecodeBomb(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata.icc_profile, "");
}

TEST(HostileTest, JpegOfManyScansIsRefused) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({1000, 1000, 3, SampleType::kU8}, random);
  std::string bytes = test::WriteJpeg({.scan_per_component = true, .quality = 10}, image.view());
  const size_t last_scan = bytes.rfind("\xff\xda");
  const std::string scan = bytes.substr(last_scan, bytes.size() - 2 - last_scan);
  bytes.resize(bytes.size() - 2);
  for (int i = 0; i < 5000; ++i) bytes += scan;
  bytes += "\xff\xd9";
  const absl::Status status = DecodeBomb(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(status.message(), "JPEG: the picture has at least 101 scans; the limit is 100");
}

TEST(HostileTest, TinyJpegOfHugeSizeIsRefusedByItsHeader) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 8, 3, SampleType::kU8}, random);
  std::string bytes = test::WriteJpeg({.progressive = true}, image.view());
  const size_t frame = bytes.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  const absl::Status status = DecodeBomb(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4290250000 pixels (65500 x 65500)"));
}

TEST(HostileTest, MetadataWithoutEndAreRefused) {
  std::string jpeg = "\xff\xd8";
  for (int i = 0; i < 1000; ++i)
    jpeg += std::string("\xff\xe2\xff\xff", 4) + std::string(65533, 'x');
  EXPECT_THAT(std::string(DecodeBomb(jpeg).status().message()), HasSubstr("the limit is 4194304"));

  std::string png = "\x89PNG\r\n\x1a\n";
  png += test::PngChunk("IHDR", std::string_view("\0\0\0\1\0\0\0\1\x08\x02\0\0\0", 13));
  png += std::string("\x7f\xff\xff\xff", 4) + "tEXt";  // a chunk of 2 GiB
  const absl::Status status = DecodeBomb(png).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 2147483"));
}

}  // namespace
}  // namespace upscaled
