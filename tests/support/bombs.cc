#include "tests/support/bombs.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "engine/base/int_math.h"
#include "engine/image/image.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr size_t kIhdrEnd = 33;
constexpr size_t kIendBytes = 12;

std::string BigEndian32(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

// The header of an 8-bit RGB image.
std::string IhdrChunk(uint32_t width, uint32_t height, bool interlaced = false) {
  const std::string size = BigEndian32(width) + BigEndian32(height);
  return PngChunk("IHDR", size + std::string("\x08\x02\0\0", 4) + (interlaced ? '\1' : '\0'));
}

std::string LittleEndian32(uint32_t value) {
  std::string bytes = BigEndian32(value);
  std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

std::string RiffChunk(std::string_view type, std::string data) {
  if (data.size() % 2 != 0) data.push_back('\0');
  return std::string(type) + LittleEndian32(static_cast<uint32_t>(data.size())) + data;
}

// Least significant bit first, as VP8L has them.
class BitWriter {
 public:
  void Write(uint32_t bits, int count) {
    for (int i = 0; i < count; ++i, ++position_) {
      if (position_ % 8 == 0) bytes_.push_back('\0');
      bytes_.back() = static_cast<char>(bytes_.back() | (bits >> i & 1) << position_ % 8);
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  int position_ = 0;
};

// Codes of one symbol. It is 0 and takes no bits.
void WriteEmptyCodes(BitWriter& bits, int codes) {
  for (int i = 0; i < codes; ++i) bits.Write(0b0001, 4);
}

// A code of 8 bits for each of the symbols 0..255.
void WriteByteCode(BitWriter& bits) {
  constexpr int kCodeLengths = 12;  // that are written, in this order: 17 18 0 1 2 3 4 5 16 6 7 8
  bits.Write(0, 1);
  bits.Write(kCodeLengths - 4, 4);
  for (int i = 0; i < kCodeLengths; ++i) bits.Write(i == 2 || i == 11, 3);  // 0 and 8: a bit each
  bits.Write(1, 1);                                                         // not all symbols
  bits.Write(3, 3);                                                         // eight bits tell
  bits.Write(256 - 2, 8);                                                   // how many
  for (int i = 0; i < 256; ++i) bits.Write(1, 1);
}

// Symbol `value` of it: most significant bit first.
void WriteByte(BitWriter& bits, int value) {
  for (int i = 7; i >= 0; --i) bits.Write(value >> i & 1, 1);
}

// The codes after the header of VP8L; the same open ALPH.
void WriteHuffmanBomb(BitWriter& bits, Size size, bool with_transform) {
  constexpr int kCodes = 5;
  if (with_transform) {
    bits.Write(0b0001, 4);  // the predictor, ...
    bits.Write(0, 2);       // ... in blocks of 4 x 4, ...
    bits.Write(0, 1);       // ... without a colour cache
    WriteEmptyCodes(bits, kCodes);
  }
  bits.Write(0, 1);            // no other transform
  bits.Write(1 | 11 << 1, 5);  // a colour cache of 2048
  bits.Write(1, 1 + 3);        // blocks of 4 x 4
  bits.Write(0, 1);            // which have no colour cache
  WriteByteCode(bits);         // green
  WriteByteCode(bits);         // red
  WriteEmptyCodes(bits, kCodes - 2);
  const int blocks = CeilDiv(size.width, 4) * CeilDiv(size.height, 4);
  for (int i = 0; i < blocks; ++i) {
    WriteByte(bits, i);       // low byte
    WriteByte(bits, i >> 8);  // high byte
  }
  for (int i = 0; i < std::min(blocks, 65536); ++i) WriteEmptyCodes(bits, kCodes);
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

std::string MetadataBombPng(const PngFile& file, std::string_view chunk, size_t bytes,
                            bool after_pixels) {
  std::string begin, inflated;
  if (chunk == "iCCP") {
    begin = std::string("p\0\0", 3);
    inflated = TestProfile(false, 1000);
    inflated.replace(0, 4, BigEndian32(static_cast<uint32_t>(bytes)));
  } else {
    begin = chunk == "zTXt" ? std::string("Comment\0\0", 9)
                            : std::string("Comment\0\1\0en\0Kommentar\0", 23);
  }
  std::string png = WritePng(file);
  png.insert(after_pixels ? png.size() - kIendBytes : kIhdrEnd,
             PngChunk(chunk, begin + DeflateZeros(inflated, bytes)));
  return png;
}

std::string PixelBombPng(size_t bytes, bool interlaced) {
  return std::string(kPngSignature) + IhdrChunk(8, 8, interlaced) +
         PngChunk("IDAT", DeflateZeros("", bytes)) + PngChunk("IEND", "");
}

std::string HuffmanBombWebp(Size size, bool with_transform) {
  BitWriter bits;
  bits.Write(0x2F, 8);
  bits.Write(size.width - 1, 14);
  bits.Write(size.height - 1, 14);
  bits.Write(0, 1 + 3);  // opaque, version 0
  WriteHuffmanBomb(bits, size, with_transform);
  return RiffChunk("RIFF", "WEBP" + RiffChunk("VP8L", bits.bytes()));
}

std::string HuffmanBombAlphaWebp(Size size, std::mt19937& random) {
  const Image image = PhotoImage({size.width, size.height, 4, SampleType::kU8}, random);
  std::string file = *Encode(image.view(), {.format = ImageFormat::kWebp, .quality = 50});
  const size_t frame = file.find("VP8 ");
  if (file.find("ALPH") > frame) std::abort();
  BitWriter bits;
  bits.Write(1, 8);  // lossless, not filtered
  WriteHuffmanBomb(bits, size, false);
  file.insert(frame, RiffChunk("ALPH", bits.bytes()));
  return RiffChunk("RIFF", file.substr(8));
}

}  // namespace upscaled::test
