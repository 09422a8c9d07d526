#include "engine/base/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace upscaled {
namespace {

using namespace std::string_literals;  // NOLINT: texts with zeros

std::optional<FileKind> KindOf(std::string_view bytes) {
  return RecognizeFileKind({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string NameOf(std::string_view bytes) {
  const std::optional<FileKind> kind = KindOf(bytes);
  return kind.has_value() ? std::string(kind->name) : "";
}

TEST(FileKindTest, KnowsOurImages) {
  for (const auto& [bytes, name] : {std::pair{"\x89PNG\r\n\x1a\n\0\0"s, "PNG"},
                                    {"\xff\xd8\xff\xe0"s, "JPEG"},
                                    {"RIFF\1\2\3\4WEBPVP8 "s, "WebP"}}) {
    ASSERT_TRUE(KindOf(bytes).has_value()) << name;
    EXPECT_EQ(KindOf(bytes)->name, name);
    EXPECT_EQ(KindOf(bytes)->type, FileKind::Type::kReadImage);
  }
}

TEST(FileKindTest, NamesOtherImages) {
  const std::pair<std::string, const char*> kImages[] = {
      {"GIF89a\1\0", "GIF"},
      {"GIF87a\1\0", "GIF"},
      {"II*\0\x08\0\0\0"s, "TIFF"},
      {"MM\0*\0\0\0\x08"s, "TIFF"},
      {"II+\0\x08\0\0\0"s, "TIFF"},
      {"BM\x36\x48\0\0\0\0\0\0\x36\0"s, "BMP"},
      {"\xff\x0a\xfa\x7f", "JPEG XL"},
      {"\0\0\0\x0cJXL \r\n\x87\n"s, "JPEG XL"},
      {"\0\0\0\x0cjP  \r\n\x87\n"s, "JPEG 2000"},
      {"\xff\x4f\xff\x51\0"s, "JPEG 2000"},
      {"\0\0\0\x1c"
       "ftypavif\0\0\0\0mif1miaf"s,
       "AVIF"},
      {"\0\0\0\x20"
       "ftypavis\0\0\0\0avifmif1"s,
       "AVIF"},
      {"\0\0\0\x20"
       "ftypmif1\0\0\0\0avifmiafMA1B"s,
       "AVIF"},
      {"\0\0\0\x18"
       "ftypheic\0\0\0\0mif1heic"s,
       "HEIC"},
      {"\0\0\0\x18"
       "ftypheix\0\0\0\0mif1heix"s,
       "HEIC"},
      {"\0\0\0\x18"
       "ftypmif1\0\0\0\0mif1heic"s,
       "HEIC"},
      {"\0\0\1\0\2\0"s, "an ICO icon"},
      {"8BPS\0\1"s, "a Photoshop document"},
      {"P6\n1 1\n255\n"s, "PPM"},
      {"<svg xmlns=\"http://www.w3.org/2000/svg\">"s, "SVG"},
  };
  const std::set<std::string> kRead = {"GIF", "BMP", "AVIF", "TIFF", "JPEG XL", "HEIC"};
  for (const auto& [bytes, name] : kImages) {
    EXPECT_EQ(NameOf(bytes), name);
    const bool read = kRead.contains(name);
    EXPECT_EQ(KindOf(bytes)->type, read ? FileKind::Type::kReadImage : FileKind::Type::kOtherImage)
        << name;
  }
}

TEST(FileKindTest, NamesTransfersThatChangeBytes) {
  const std::pair<std::string, const char*> kChanged[] = {
      {"\x89PNG\n\x1a\n\0\0\0\x0dIHDR"s, "a PNG whose line ends were changed in transfer"},
      {"\x89PNG\r\r\n\x1a\r\n\0\0"s, "a PNG whose line ends were changed in transfer"},
      {"\x89PNG\x1a\0\0\0\rIHDR"s, "a PNG whose line ends were dropped in transfer"},
      {"\xef\xbf\xbdPNG\r\n\x1a\n", "a PNG that was read as text"},
      {"\xc2\x89PNG\r\n\x1a\n", "a PNG that was read as text"},
      {"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "binary data that was read as text"},
  };
  for (const auto& [bytes, name] : kChanged) {
    EXPECT_EQ(NameOf(bytes), name);
    EXPECT_THAT(std::string(KindOf(bytes)->advice), testing::HasSubstr("unchanged"));
    EXPECT_EQ(KindOf(bytes)->type, FileKind::Type::kOther);
  }
}

TEST(FileKindTest, NamesOtherFiles) {
  const std::pair<std::string, const char*> kOthers[] = {
      {"\x1f\x8b\x08\0\0"s, "gzip"},
      {"PK\3\4\x14\0"s, "a ZIP archive"},
      {"\x28\xb5\x2f\xfd\0"s, "zstd"},
      {"%PDF-1.7\n", "PDF"},
      {"\0\0\0\x18"
       "ftypisom\0\0\0\0isommp42"s,
       "an MP4 or QuickTime video"},
      {"RIFF1234WAVE", "WAV sound"},
      {"RIFF1234AVI ", "an AVI video"},
      {"<!DOCTYPE html><title>404", "an HTML page"},
      {"\xef\xbb\xbf\n <HTML><head>", "an HTML page"},
      {"<?xml version=\"1.0\"?><Error/>", "XML"},
      {"{\"image\": \"iVBORw0KGgo\"}", "JSON"},
      {" \n[1, 2]", "JSON"},
      {"data:image/png;base64,iVBORw0KGgo", "a data: URL"},
      {"https://example.org/cat.png", "a URL"},
      {"iVBORw0KGgoAAAANSUhEUgAA", "a PNG in base64 text"},
      {"/9j/4AAQSkZJRgABAQAAAQABAAD", "a JPEG in base64 text"},
      {"UklGRiQAAABXRUJQVlA4", "a WebP in base64 text"},
      {std::string(60, 'Q') + "==", "base64 text"},
      {"89504e470d0a1a0a0000000d", "a PNG in hexadecimal text"},
      {"b'\\x89PNG\\r\\n'", "the Python text of bytes"},
      {"--x\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\n", "a form"},
      {"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"},
      {"cat.png", "text"},
      {std::string(16, '\0'), "a file of zeros"},
  };
  for (const auto& [bytes, name] : kOthers) {
    EXPECT_EQ(NameOf(bytes), name);
    EXPECT_EQ(KindOf(bytes)->type, FileKind::Type::kOther) << name;
  }
}

TEST(FileKindTest, NamesNothingOfUnknownOrMissingBytes) {
  EXPECT_EQ(NameOf(""), "");
  EXPECT_EQ(NameOf(" \n"), "");
  EXPECT_EQ(NameOf("\x01\x02\x03\x04"), "");
}

TEST(FileKindTest, ReadsNothingBeyondItsBytes) {
  std::mt19937 random(std::random_device{}());
  const std::string begins[] = {
      "\0\0\0\x1c"
      "ftyp"s,
      "\0\0\0\xff"
      "ftypavif"s,
      "--"s,
      "RIFF"s,
      "<"s,
      ""s};
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = begins[i % std::size(begins)];
    for (size_t more = random() % 300; more > 0; --more) bytes += static_cast<char>(random());
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());  // which sanitizers watch
    (void)RecognizeFileKind(exact);
  }
}

}  // namespace
}  // namespace upscaled
