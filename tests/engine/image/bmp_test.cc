// BMP files of every kind of header, depth and coding.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/image/codec.h"
#include "engine/image/file_end.h"
#include "tests/support/prefixes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

void Append(std::string& bytes, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i);
}

struct BmpFile {
  int header_bytes = 40;
  int width = 0, height = 0;
  bool top_down = false;
  int bits = 24;
  uint32_t compression = 0;
  std::vector<uint32_t> masks;    // behind the header, or inside a long one
  std::vector<uint32_t> palette;  // 0xRRGGBB
  std::string pixels;
  std::string profile;
};

std::string WriteBmp(const BmpFile& file) {
  std::string header;
  Append(header, file.header_bytes, 4);
  const bool core = file.header_bytes == 12;
  Append(header, file.width, core ? 2 : 4);
  Append(header, file.top_down ? -file.height : file.height, core ? 2 : 4);
  Append(header, 1, 2);
  Append(header, file.bits, 2);
  if (!core && file.header_bytes > 16) {
    for (const uint32_t value : {file.compression, uint32_t(file.pixels.size()), 3937u, 7874u,
                                 uint32_t(file.palette.size()), 0u})
      Append(header, value, 4);
  }
  std::string masks;
  for (const uint32_t mask : file.masks) Append(masks, mask, 4);
  if (file.header_bytes > 40) header += std::exchange(masks, "");
  header.resize(file.header_bytes, '\0');
  std::string palette;
  for (const uint32_t entry : file.palette) Append(palette, entry, core ? 3 : 4);
  const size_t begin = 14 + header.size() + masks.size() + palette.size();
  if (file.header_bytes >= 108) header.replace(56, 4, "BGRs");
  if (!file.profile.empty()) {
    std::string place;
    Append(place, begin - 14 + file.pixels.size(), 4);
    Append(place, file.profile.size(), 4);
    header.replace(56, 4, "DEBM").replace(112, 8, place);
  }
  std::string bytes = "BM";
  Append(bytes, begin + file.pixels.size() + file.profile.size(), 4);
  Append(bytes, 0, 4);
  Append(bytes, begin, 4);
  return bytes + header + masks + palette + file.pixels + file.profile;
}

// Rows of `value(x, y)` of `bits` each, packed as the format packs them.
template <typename Value>
std::string PackRows(const BmpFile& file, Value value) {
  std::string pixels;
  for (int stored = 0; stored < file.height; ++stored) {
    const int y = file.top_down ? stored : file.height - 1 - stored;
    std::string row((file.width * file.bits + 31) / 32 * 4, '\0');
    for (int x = 0; x < file.width; ++x) {
      const uint32_t v = value(x, y);
      if (file.bits < 8)
        row[x * file.bits / 8] |= static_cast<char>(v << (8 - file.bits - x * file.bits % 8));
      else
        for (int i = 0; i < file.bits / 8; ++i)
          row[x * file.bits / 8 + i] = static_cast<char>(v >> 8 * i);
    }
    pixels += row;
  }
  return pixels;
}

// `colour(x, y)` is 0xAARRGGBB.
template <typename Colour>
Image ImageOf(int width, int height, int channels, Colour colour) {
  Image image({width, height, channels, SampleType::kU8});
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.mutable_view().row(y)[x * channels + c] =
            static_cast<uint8_t>(colour(x, y) >> (c == 3 ? 24 : 16 - 8 * c));
  return image;
}

absl::Status ErrorOf(const BmpFile& file) { return test::Decode(WriteBmp(file)).status(); }

TEST(BmpTest, ReadsIndicesOfEveryDepthSizeAndHeader) {
  std::mt19937 random = test::FreshRandom();
  for (const int header : {12, 16, 40, 52, 56, 64, 108, 124})
    for (const int bits : {1, 2, 4, 8})
      for (const Size size : {Size{1, 1}, Size{7, 3}, Size{8, 2}, Size{33, 5}}) {
        SCOPED_TRACE(::testing::Message() << header << " " << bits << " " << size.width);
        BmpFile file{.header_bytes = header, .width = size.width, .height = size.height};
        file.bits = bits;
        file.top_down = header >= 40 && random() % 2 == 0;
        for (int i = 0; i < 1 << bits; ++i) file.palette.push_back(random() & 0xFFFFFF);
        std::vector<uint8_t> indices(size.Area());
        for (uint8_t& index : indices) index = random() % (1 << bits);
        const auto index = [&](int x, int y) { return indices[y * size.width + x]; };
        file.pixels = PackRows(file, index);
        const auto decoded = test::Decode(WriteBmp(file));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_TRUE(test::SameImages(decoded->image.view(),
                                     ImageOf(size.width, size.height, 3, [&](int x, int y) {
                                       return file.palette[index(x, y)];
                                     }).view()));
      }
}

TEST(BmpTest, ReadsColoursByTheirMasks) {
  struct Case {
    int header, bits;
    uint32_t compression;
    std::vector<uint32_t> masks;
    uint32_t pixel, colour;  // 0xAARRGGBB
    int channels;
  };
  const Case kCases[] = {
      {12, 24, 0, {}, 0x123456, 0x123456, 3},
      {40, 24, 0, {}, 0x123456, 0x123456, 3},
      {40, 32, 0, {}, 0x99123456, 0x123456, 3},
      {40, 16, 0, {}, 0b0'11111'00000'10000, 0xFF0084, 3},
      {40, 16, 3, {0xF800, 0x07E0, 0x001F}, 0b00001'111111'10000, 0x08FF84, 3},
      {40, 32, 3, {0xFF, 0xFF00, 0xFF0000}, 0x563412, 0x123456, 3},
      {40, 32, 6, {0xFF0000, 0xFF00, 0xFF, 0xFF000000}, 0x80123456, 0x80123456, 4},
      {52, 32, 3, {0xFF, 0xFF00, 0xFF0000}, 0x563412, 0x123456, 3},
      {56, 32, 3, {0xFF0000, 0xFF00, 0xFF, 0xFF000000}, 0x80123456, 0x80123456, 4},
      {108, 16, 3, {0xF00, 0xF0, 0xF, 0xF000}, 0x8F07, 0x88FF0077, 4},
      {124, 32, 3, {0x3FF00000, 0xFFC00, 0x3FF, 0}, 0x3FF00200, 0xFF0080, 3},
      {124, 32, 3, {0, 0xFF00, 0, 0}, 0x4200, 0x004200, 3},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::Message() << c.header << " " << c.bits << " " << c.colour);
    BmpFile file{.header_bytes = c.header, .width = 5, .height = 3, .bits = c.bits};
    file.compression = c.compression;
    file.masks = c.masks;
    file.pixels = PackRows(file, [&](int, int) { return c.pixel; });
    const auto decoded = test::Decode(WriteBmp(file));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), ImageOf(5, 3, c.channels, [&](int, int) {
                                                          return c.colour;
                                                        }).view()));
  }
}

TEST(BmpTest, AlphaThatIsZeroThroughoutIsUnused) {
  BmpFile file{.header_bytes = 56, .width = 2, .height = 1, .bits = 32, .compression = 3};
  file.masks = {0xFF0000, 0xFF00, 0xFF, 0xFF000000};
  file.pixels = PackRows(file, [](int, int) { return 0x123456; });
  const auto decoded = test::Decode(WriteBmp(file));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(),
                               ImageOf(2, 1, 4, [](int, int) { return 0xFF123456; }).view()));
  EXPECT_THAT(decoded->warnings, ElementsAre(HasSubstr("taken for unused")));
}

TEST(BmpTest, BitsThatMayBeAlphaAreNamed) {
  for (const bool varies : {false, true})
    for (const bool masked : {false, true}) {
      BmpFile file{.width = 5, .height = 4, .bits = 32};
      if (masked) file.compression = 3, file.masks = {0xFF0000, 0xFF00, 0xFF};
      const auto colour = [&](int x, int y) {
        return 0x01020304u * (x + y) % 0x1000000 | (varies && x == 4 && y == 3 ? 0x80u : 0xFFu)
                                                       << 24;
      };
      file.pixels = PackRows(file, colour);
      const auto decoded = test::Decode(WriteBmp(file));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_TRUE(test::SameImages(decoded->image.view(), ImageOf(5, 4, 3, colour).view()));
      EXPECT_EQ(decoded->warnings.size(), varies ? 1u : 0u);
    }
}

TEST(BmpTest, ReadsRunsStepsAndSinglePixels) {
  BmpFile file{.width = 5, .height = 3, .bits = 8, .compression = 1};
  file.palette = {0x000001, 0x111111, 0x222222, 0x333333};
  // The lowest row: a run longer than the row; then pixels one by one, with a byte of padding, and
  // the row's end; then a step to the right, a run, the image's end.
  file.pixels = std::string("\x09\x01\0\0\0\x03\x01\x02\x03\0\0\0\0\x02\x03\0\x01\x02\0\x01", 20);
  const auto decoded = test::Decode(WriteBmp(file));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  constexpr int kIndices[3][5] = {{0, 0, 0, 2, 0}, {1, 2, 3, 0, 0}, {1, 1, 1, 1, 1}};
  EXPECT_TRUE(test::SameImages(decoded->image.view(), ImageOf(5, 3, 3, [&](int x, int y) {
                                                        return file.palette[kIndices[y][x]];
                                                      }).view()));
  file.bits = 4;
  file.compression = 2;
  file.pixels = std::string("\x05\x12\0\0\0\x03\x12\x30\0\0\0\x01", 12);
  const auto nibbles = test::Decode(WriteBmp(file));
  ASSERT_TRUE(nibbles.ok()) << nibbles.status();
  constexpr int kNibbles[3][5] = {{0, 0, 0, 0, 0}, {1, 2, 3, 0, 0}, {1, 2, 1, 2, 1}};
  EXPECT_TRUE(test::SameImages(nibbles->image.view(), ImageOf(5, 3, 3, [&](int x, int y) {
                                                        return file.palette[kNibbles[y][x]];
                                                      }).view()));
  test::ExpectPrefixesAreRefused(WriteBmp(file));
}

TEST(BmpTest, CarriesProfileAndDensity) {
  BmpFile file{.header_bytes = 124, .width = 3, .height = 2, .profile = "a profile"};
  file.pixels = PackRows(file, [](int, int) { return 0x102030; });
  const auto decoded = test::Decode(WriteBmp(file));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata.icc_profile, "a profile");
  EXPECT_EQ(decoded->metadata.density, (PixelDensity{PixelDensity::Unit::kMetre, 3937, 7874}));
  const auto limited = test::Decode(WriteBmp(file), {.max_metadata_bytes = 142});
  EXPECT_TRUE(limited.ok()) << limited.status();
  file.profile = std::string(200, 'p');
  const auto long_profile = test::Decode(WriteBmp(file), {.max_metadata_bytes = 150});
  ASSERT_TRUE(long_profile.ok()) << long_profile.status();
  EXPECT_EQ(long_profile->metadata.icc_profile, "");
  EXPECT_THAT(long_profile->warnings, ElementsAre(HasSubstr("it has 200 bytes; the limit is 150")));
}

TEST(BmpTest, RefusesByName) {
  const auto message = [](const BmpFile& file) { return std::string(ErrorOf(file).message()); };
  EXPECT_THAT(message({.header_bytes = 41, .width = 1, .height = 1}), HasSubstr("41 bytes"));
  EXPECT_THAT(message({.width = 1, .height = 1, .bits = 64}), HasSubstr("64 bits a pixel"));
  EXPECT_THAT(message({.width = 1, .height = 1, .compression = 7}), HasSubstr("compression 7"));
  EXPECT_THAT(message({.width = 0, .height = 1}), HasSubstr("0 x 1"));
  EXPECT_THAT(message({.width = -1, .height = 1}), HasSubstr("-1 x 1"));
  EXPECT_THAT(message({.width = 1, .height = INT32_MIN}), HasSubstr("the limit is"));
  EXPECT_THAT(message({.width = 100'000, .height = 100'000}), HasSubstr("10000000000 pixels"));
  EXPECT_THAT(message({.width = 1,
                       .height = 1,
                       .bits = 32,
                       .compression = 3,
                       .masks = {0xF0F, 0xF000, 0xF0000}}),
              HasSubstr("scattered"));
}

TEST(BmpTest, RefusesFilesWithinItAndOtherCodingsByName) {
  struct Case {
    int header_bytes, bits;
    uint32_t compression;
    const char* name;
  };
  const Case cases[] = {
      {40, 0, 4, "a JPEG file within it"},   {40, 24, 4, "a JPEG file within it"},
      {124, 0, 5, "a PNG file within it"},   {40, 32, 11, "CMYK within it"},
      {40, 8, 12, "CMYK in runs within it"}, {40, 4, 13, "CMYK in runs within it"},
      {64, 1, 3, "Huffman codes within it"}, {64, 24, 4, "runs of 24 bits within it"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const absl::Status error = ErrorOf({.header_bytes = c.header_bytes,
                                        .width = 1,
                                        .height = 1,
                                        .bits = c.bits,
                                        .compression = c.compression});
    EXPECT_EQ(error.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(error.message()), HasSubstr(c.name));
  }
}

std::string WarningOfEnd(const std::string& bytes, size_t portion) {
  FileEnd end;
  for (size_t at = 0; at < bytes.size(); at += portion)
    end.Pass(AsBytes(std::string_view(bytes).substr(at, portion)));
  return end.Warning();
}

// Files of rows and of runs, the latter with and without a code of their end; `profile` is of
// version 5.
std::vector<std::pair<std::string, BmpFile>> FilesOfEveryEnd() {
  std::vector<std::pair<std::string, BmpFile>> files;
  for (const int header : {12, 16, 40, 52, 56, 64, 108, 124})
    for (const int bits : {1, 4, 8, 24, 32})
      for (const bool has_profile : {false, true}) {
        if (has_profile && header != 124) continue;
        BmpFile file{.header_bytes = header, .width = 5, .height = 3, .bits = bits};
        file.palette.resize(bits <= 8 ? size_t{1} << bits : 0);
        file.pixels = PackRows(file, [](int x, int y) { return (x + y) % 2; });
        if (has_profile) file.profile = "a profile";
        files.emplace_back(absl::StrCat(header, " bytes, ", bits, " bits, ", has_profile), file);
      }
  const std::pair<const char*, std::string> runs[] = {
      {"a run a row", std::string("\5\1\0\0\5\1\0\0\5\1\0\0", 12)},
      {"single pixels", std::string("\0\5\1\1\1\1\1\0\0\0\5\1\0\0\5\1\0\0", 18)},
      {"a step", std::string("\5\1\0\2\0\3", 6)}};
  for (const bool nibbles : {false, true})
    for (const bool has_profile : {false, true})
      for (const bool has_end : {false, true})
        for (const auto& [name, codes] : runs) {
          BmpFile file{.header_bytes = has_profile ? 124 : 40, .width = 5, .height = 3};
          file.bits = nibbles ? 4 : 8;
          file.compression = nibbles ? 2 : 1;
          file.palette.resize(16);
          file.pixels = codes;
          if (nibbles && file.pixels.starts_with(std::string("\0\5", 2)))
            file.pixels.replace(2, 6, std::string("\x11\x11\x10\0", 4));
          if (has_end) file.pixels += std::string("\0\1", 2);
          if (has_profile) file.profile = "a profile";
          files.emplace_back(absl::StrCat(name, nibbles, has_profile, has_end), file);
        }
  return files;
}

TEST(BmpTest, BytesBehindTheImageAreNamed) {
  for (const auto& [name, file] : FilesOfEveryEnd()) {
    SCOPED_TRACE(name);
    const std::string bytes = WriteBmp(file);
    const auto decoded = test::Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->metadata.icc_profile, file.profile);
    for (const size_t portion : {1, 7, 100'000}) {
      EXPECT_EQ(WarningOfEnd(bytes, portion), "");
      for (const size_t count : {1, 2, 3})  // fills the file up to words
        EXPECT_EQ(WarningOfEnd(bytes + std::string(count, '\0'), portion), "");
      EXPECT_EQ(WarningOfEnd(bytes + "\1", portion), "behind the BMP's end 1 byte was left out");
      EXPECT_EQ(WarningOfEnd(bytes + "\xfe\1" + std::string(5000, 'z'), portion),
                "behind the BMP's end 5002 bytes were left out");
      EXPECT_EQ(WarningOfEnd(bytes + std::string(4, '\0'), portion),
                "behind the BMP's end 4 bytes were left out");
      EXPECT_THAT(WarningOfEnd(bytes + bytes, portion), HasSubstr("(BMP begins there)"));
    }
    for (size_t cut = 0; cut < bytes.size(); ++cut)
      EXPECT_EQ(WarningOfEnd(bytes.substr(0, cut), 3), "") << cut;
  }
}

// Sides of any size, and places of any part.
TEST(BmpTest, NoHeaderHurtsTheSearchForTheEnd) {
  std::mt19937 random = test::FreshRandom();
  const auto files = FilesOfEveryEnd();
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = WriteBmp(files[random() % files.size()].second) + "behind";
    for (int changes = test::RandomInt(random, 1, 4); changes > 0; --changes)
      bytes[test::RandomInt(random, 2, std::min<int>(bytes.size(), 140) - 1)] =
          static_cast<char>(random());
    EXPECT_EQ(WarningOfEnd(bytes, 7), WarningOfEnd(bytes, bytes.size()));
  }
}

TEST(BmpTest, CutAndDamagedFilesAreRefusedOrFilled) {
  std::mt19937 random = test::FreshRandom();
  BmpFile file{.width = 9, .height = 7};
  file.pixels = PackRows(file, [&](int, int) { return random(); });
  const std::string bytes = WriteBmp(file);
  test::ExpectPrefixesAreRefused(bytes);
  test::ExpectDamageIsSurvived(bytes, random, 300);
  const auto whole = test::Decode(bytes);
  const std::string cut = bytes.substr(0, bytes.size() - 2 * 28 - 3);
  EXPECT_THAT(std::string(test::Decode(cut).status().message()),
              HasSubstr("truncated; 4 of 7 rows were read"));
  const auto filled = test::Decode(cut, {.fill_damage = true});
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_THAT(filled->warnings, SizeIs(1));
  for (int y = 0; y < 7; ++y) {
    const std::string_view row(reinterpret_cast<const char*>(filled->image.view().row(y)), 27);
    const std::string_view expected(reinterpret_cast<const char*>(whole->image.view().row(y)), 27);
    EXPECT_EQ(row, y < 3 ? std::string(27, '\x80') : expected);
  }
}

}  // namespace
}  // namespace upscaled
