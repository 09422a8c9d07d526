// Files with a damaged end and all their pixels, and files without some of them.
#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kIendBytes = 12, kCrcBytes = 4, kAdlerBytes = 4;

// A PNG file with its pixels in one chunk.
struct Png {
  std::string bytes;
  Image pixels;
  size_t end() const { return bytes.size() - kIendBytes; }  // of the pixels' chunk
};

Png MakePng(bool interlaced, std::mt19937& random) {
  test::PngFile file = test::RandomPng(23, 19, 8, 2, random);
  file.interlaced = interlaced;
  return {test::WritePng(file), test::ExpectedPixels(file)};
}

// Corrects the CRC of the chunk before `end`.
void MendCrc(std::string& png, size_t end) {
  const size_t begin = png.find("IDAT");
  const uint32_t crc =
      crc32(0, reinterpret_cast<const Bytef*>(&png[begin]), end - kCrcBytes - begin);
  for (int i = 0; i < 4; ++i) png[end - kCrcBytes + i] = static_cast<char>(crc >> (24 - 8 * i));
}

void ExpectComputed(const std::string& bytes, const Image& pixels, std::string_view warning) {
  const auto decoded = test::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), pixels.view()));
  EXPECT_THAT(decoded->warnings, ElementsAre(HasSubstr(std::string(warning))));
}

TEST(DamageTest, PngWithADamagedEndIsComputed) {
  std::mt19937 random = test::FreshRandom();
  for (const bool interlaced : {false, true}) {
    SCOPED_TRACE(interlaced);
    const Png png = MakePng(interlaced, random);
    EXPECT_THAT(test::Decode(png.bytes)->warnings, IsEmpty());
    for (size_t lost = 1; lost <= kIendBytes + kCrcBytes + kAdlerBytes; ++lost)
      ExpectComputed(png.bytes.substr(0, png.bytes.size() - lost), png.pixels,
                     "the end of the file is missing; all rows were read");
    std::string bytes = png.bytes;
    bytes.back() ^= 1;
    ExpectComputed(bytes, png.pixels, "the CRC of the file's end (IEND) is wrong");

    bytes = png.bytes;
    bytes[png.end() + 7] = 'X';  // IENX
    ExpectComputed(bytes, png.pixels, "all rows were read");

    bytes = png.bytes;
    std::fill(bytes.begin() + png.end(), bytes.end(), '\0');
    ExpectComputed(bytes, png.pixels, "all rows were read");

    bytes = png.bytes;
    bytes[png.end() - 1] ^= 1;
    ExpectComputed(bytes, png.pixels, "the CRC of the pixels is wrong, their checksum is right");

    bytes = png.bytes;
    bytes[png.end() - kCrcBytes - 1] ^= 1;
    MendCrc(bytes, png.end());
    ExpectComputed(bytes, png.pixels, "incorrect data check");

    // Neither the CRC nor the checksum vouches for the pixels.
    bytes[png.end() - 1] ^= 1;
    EXPECT_EQ(test::Decode(bytes).status().code(), absl::StatusCode::kInvalidArgument);

    EXPECT_THAT(test::Decode(png.bytes + std::string(1000, '\0'))->warnings, IsEmpty());
  }
}

TEST(DamageTest, JpegWithADamagedEndIsComputed) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({83, 61, 3, SampleType::kU8}, random);
  for (const test::JpegFile& file :
       {test::JpegFile{}, test::JpegFile{.progressive = true},
        test::JpegFile{.scan_per_component = true}, test::JpegFile{.restart_interval = 3},
        test::JpegFile{.luma_sampling = {2, 2}}}) {
    SCOPED_TRACE(::testing::Message() << file.progressive << file.scan_per_component
                                      << file.restart_interval << file.luma_sampling.width);
    const std::string bytes = test::WriteJpeg(file, image.view());
    const auto whole = test::Decode(bytes);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_THAT(whole->warnings, IsEmpty());
    const std::string no_end = bytes.substr(0, bytes.size() - 2);
    const std::string missing = "the end of the file is missing; all pixels were read";
    ExpectComputed(no_end, whole->image, missing);
    ExpectComputed(no_end + std::string(1, '\xff'), whole->image, missing);
    ExpectComputed(no_end + std::string(2, '\0'), whole->image, missing);
    ExpectComputed(no_end + std::string(5000, '\0'), whole->image, missing);
    EXPECT_THAT(test::Decode(bytes + std::string(5000, '\0'))->warnings, IsEmpty());
  }
}

TEST(DamageTest, WebpThatEndsBehindItsPixelsIsComputed) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({83, 61, 3, SampleType::kU8}, random);
  const std::string bytes =
      *test::Encode(image.view(), {.format = ImageFormat::kWebp}, {.exif = std::string(500, 'x')});
  const auto whole = test::Decode(bytes);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const size_t lost : {1, 100, 500})
    ExpectComputed(bytes.substr(0, bytes.size() - lost), whole->image, "all pixels were read");
}

TEST(DamageTest, MissingPixelsAreFilledWhenAskedFor) {
  std::mt19937 random = test::FreshRandom();
  const Image photo = test::PhotoImage({64, 400, 3, SampleType::kU8}, random);
  const Image alpha = test::PhotoImage({64, 400, 4, SampleType::kU8}, random);
  struct Case {
    std::string bytes;
    int missing;  // the samples' value
  };
  test::PngFile interlaced = test::RandomPng(64, 400, 8, 2, random);
  interlaced.interlaced = true;
  const std::vector<Case> cases = {
      {*test::Encode(photo.view(), {}), 128},
      {*test::Encode(alpha.view(), {}), 0},
      {test::WritePng(interlaced), -1},  // gray only where no pass came
      {test::WriteJpeg({}, photo.view()), 128},
      {test::WriteJpeg({.progressive = true}, photo.view()), -1},
      {test::WriteJpeg({.exif = test::ExifSegment(3, true)}, photo.view()), -1},
      {*test::Encode(photo.view(), {.format = ImageFormat::kWebp, .quality = 100}), 128},
      {*test::Encode(alpha.view(), {.format = ImageFormat::kWebp, .quality = 100}), 0},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string cut = cases[i].bytes.substr(0, cases[i].bytes.size() / 2);
    EXPECT_EQ(test::Decode(cut).status().code(), absl::StatusCode::kInvalidArgument);
    const auto whole = test::Decode(cases[i].bytes);
    const auto filled = test::Decode(cut, {.fill_damage = true});
    ASSERT_TRUE(filled.ok()) << filled.status();
    EXPECT_THAT(filled->warnings, Contains(HasSubstr("missing")));
    ASSERT_EQ(filled->header.spec, whole->header.spec);
    if (cases[i].missing < 0) continue;
    const size_t row_bytes = filled->header.spec.row_bytes();
    EXPECT_EQ(std::memcmp(filled->image.view().row(0), whole->image.view().row(0), row_bytes), 0);
    for (size_t k = 0; k < row_bytes; ++k)
      EXPECT_EQ(filled->image.view().row(399)[k], cases[i].missing);
  }
}

}  // namespace
}  // namespace upscaled
