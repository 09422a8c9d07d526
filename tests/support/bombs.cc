#include "tests/support/bombs.h"

#include <cstdlib>
#include <string_view>

#include "engine/image/image.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr size_t kIhdrEnd = 33;

std::string BigEndian32(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

// Of an 8-bit RGB picture.
std::string IhdrChunk(uint32_t width, uint32_t height) {
  const std::string size = BigEndian32(width) + BigEndian32(height);
  return PngChunk("IHDR", size + std::string("\x08\x02\0\0\0", 5));
}

}  // namespace

std::string HugePng() { return std::string(kPngSignature) + IhdrChunk(100000, 100000); }

std::string HugeJpeg(std::mt19937& random) {
  const Image image = PhotoImage({8, 8, 3, SampleType::kU8}, random);
  std::string bytes = WriteJpeg({.progressive = true}, image.view());
  const size_t frame = bytes.find("\xff\xc2");
  if (frame == std::string::npos) std::abort();
  bytes.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  return bytes;
}

std::string ManyScansJpeg(int more_scans, std::mt19937& random) {
  const Image image = PhotoImage({1000, 1000, 3, SampleType::kU8}, random);
  std::string bytes = WriteJpeg({.scan_per_component = true, .quality = 10}, image.view());
  const std::string end = "\xff\xd9";
  bytes.resize(bytes.size() - end.size());
  const std::string scan = bytes.substr(bytes.rfind("\xff\xda"));
  for (int i = 0; i < more_scans; ++i) bytes += scan;
  return bytes + end;
}

std::string MetadataJpeg(int markers) {
  std::string bytes = "\xff\xd8";
  for (int i = 0; i < markers; ++i) {
    bytes += std::string("\xff\xe2\xff\xff", 4) + std::string(65533, 'x');
  }
  return bytes;
}

std::string TextBombPng(const PngFile& file, size_t bytes) {
  const std::string zeros = DeflateZeros("", bytes);
  std::string png = WritePng(file);
  png.insert(kIhdrEnd, PngChunk("zTXt", std::string("Comment\0\0", 9) + zeros) +
                           PngChunk("iTXt", std::string("Comment\0\1\0\0\0", 12) + zeros));
  return png;
}

std::string ProfileBombPng(const PngFile& file, size_t bytes) {
  std::string begin = TestProfile(false, 1000);
  begin.replace(0, 4, BigEndian32(bytes));
  std::string png = WritePng(file);
  png.insert(kIhdrEnd, PngChunk("iCCP", std::string("p\0\0", 3) + DeflateZeros(begin, bytes)));
  return png;
}

std::string PixelBombPng(size_t bytes) {
  return std::string(kPngSignature) + IhdrChunk(8, 8) + PngChunk("IDAT", DeflateZeros("", bytes)) +
         PngChunk("IEND", "");
}

}  // namespace upscaled::test
