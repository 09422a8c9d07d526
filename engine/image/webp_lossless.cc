// Source: WebP lossless specification, sections 3 to 6. Only the parts up to the end of the data
// are decoded: no pixel is kept.
#include "engine/image/webp_lossless.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <vector>

#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"

namespace upscaled {
namespace {

constexpr int kLiterals = 256;
constexpr int kLengthCodes = 24;
constexpr int kDistanceCodes = 40;
constexpr int kMaxCacheBits = 11;
constexpr int kMaxCodeBits = 15;
// Memory of libwebp: a group's tables at the largest colour cache, and the memory next to them.
constexpr size_t kGroupBytes = 5004 * 4 + 568;
// libwebp leaves gaps in the numbering of groups as they are up to here.
constexpr size_t kGroupsWithGaps = 1000;

absl::Status Corrupt() { return absl::InvalidArgumentError("WebP: the lossless data are corrupt"); }

// Least significant bit first. Gives zeros after the end, and says so.
class BitReader {
 public:
  explicit BitReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint32_t Read(int count) {
    uint32_t bits = 0;
    for (int i = 0; i < count; ++i, ++position_)
      if (!ended()) bits |= uint32_t(bytes_[position_ / 8] >> position_ % 8 & 1) << i;
    return bits;
  }
  bool ended() const { return position_ >= 8 * bytes_.size(); }
  bool overrun() const { return position_ > 8 * bytes_.size(); }

 private:
  const std::span<const uint8_t> bytes_;
  size_t position_ = 0;  // in bits
};

// A canonical prefix code.
class PrefixCode {
 public:
  // False unless every bit string begins with exactly one code; a single symbol takes no bits.
  bool Build(std::span<const uint8_t> lengths) {
    counts_.fill(0);
    for (const uint8_t length : lengths) ++counts_[length];
    std::array<int, kMaxCodeBits + 2> offsets = {};
    int open = 1;
    counts_[0] = 0;
    for (int bits = 1; bits <= kMaxCodeBits; ++bits) {
      open = 2 * open - counts_[bits];
      if (open < 0) return false;
      offsets[bits + 1] = offsets[bits] + counts_[bits];
    }
    symbols_.resize(offsets[kMaxCodeBits + 1]);
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol)
      if (lengths[symbol] != 0) symbols_[offsets[lengths[symbol]]++] = static_cast<int>(symbol);
    return symbols_.size() == 1 || (open == 0 && !symbols_.empty());
  }

  int Read(BitReader& bits) const {
    if (symbols_.size() == 1) return symbols_[0];
    int code = 0, first = 0, index = 0;
    for (int length = 1; length <= kMaxCodeBits; ++length) {
      code |= static_cast<int>(bits.Read(1));
      if (code - first < counts_[length]) return symbols_[index + code - first];
      index += counts_[length];
      first = 2 * (first + counts_[length]);
      code *= 2;
    }
    return 0;  // cannot be: the code is complete
  }

 private:
  std::array<int, kMaxCodeBits + 1> counts_;
  std::vector<int> symbols_;  // by code
};

// The lengths of the codes of `lengths.size()` symbols.
bool ReadCodeLengths(BitReader& bits, std::span<uint8_t> lengths) {
  constexpr uint8_t kOrder[] = {17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::array<uint8_t, std::size(kOrder)> length_lengths = {};
  const int count = static_cast<int>(bits.Read(4)) + 4;
  for (int i = 0; i < count; ++i) length_lengths[kOrder[i]] = static_cast<uint8_t>(bits.Read(3));
  PrefixCode length_code;
  if (!length_code.Build(length_lengths)) return false;

  size_t reads = lengths.size();
  if (bits.Read(1) != 0) {
    const int width = 2 + 2 * static_cast<int>(bits.Read(3));
    reads = 2 + bits.Read(width);
    if (reads > lengths.size()) return false;
  }
  uint8_t previous = 8;
  for (size_t symbol = 0; symbol < lengths.size() && reads > 0; --reads) {
    const int length = length_code.Read(bits);
    if (length < 16) {
      if (length != 0) previous = static_cast<uint8_t>(length);
      lengths[symbol++] = static_cast<uint8_t>(length);
      continue;
    }
    constexpr int kExtraBits[] = {2, 3, 7}, kMin[] = {3, 3, 11};
    const size_t repeat = kMin[length - 16] + bits.Read(kExtraBits[length - 16]);
    if (repeat > lengths.size() - symbol) return false;
    std::fill_n(lengths.begin() + symbol, repeat, length == 16 ? previous : 0);
    symbol += repeat;
  }
  return true;
}

bool ReadPrefixCode(BitReader& bits, int symbols, PrefixCode& code) {
  std::vector<uint8_t> lengths(std::max(symbols, kLiterals));
  if (bits.Read(1) != 0) {
    const bool two = bits.Read(1) != 0;
    lengths[bits.Read(bits.Read(1) != 0 ? 8 : 1)] = 1;
    if (two) lengths[bits.Read(8)] = 1;
  } else if (!ReadCodeLengths(bits, std::span(lengths).first(symbols))) {
    return false;
  }
  return code.Build(std::span(lengths).first(symbols));
}

// A length or distance from its prefix symbol.
size_t ReadCount(BitReader& bits, int symbol) {
  if (symbol < 4) return symbol + 1;
  const int extra = (symbol - 2) >> 1;
  return (size_t(2 + (symbol & 1)) << extra) + bits.Read(extra) + 1;
}

// Bits of the colour cache; 0: there is no such code; negative: corrupt.
int ReadCacheBits(BitReader& bits) {
  if (bits.Read(1) == 0) return 0;
  const int cache_bits = static_cast<int>(bits.Read(4));
  return cache_bits >= 1 && cache_bits <= kMaxCacheBits ? cache_bits : -1;
}

// Reads past the data of a transform. These are an image themselves.
bool SkipImage(BitReader& bits, size_t pixels) {
  const int cache_bits = ReadCacheBits(bits);
  if (cache_bits < 0) return false;
  const int green = kLiterals + kLengthCodes + (cache_bits > 0 ? 1 << cache_bits : 0);
  std::array<PrefixCode, 5> codes;  // green, red, blue, alpha, distance
  for (size_t i = 0; i < codes.size(); ++i) {
    const int symbols = i == 0 ? green : i == 4 ? kDistanceCodes : kLiterals;
    if (!ReadPrefixCode(bits, symbols, codes[i])) return false;
  }
  for (size_t pixel = 0; pixel < pixels && !bits.overrun();) {
    const int symbol = codes[0].Read(bits);
    size_t count = 1;
    if (symbol < kLiterals) {
      for (int i = 1; i <= 3; ++i) codes[i].Read(bits);
    } else if (symbol < kLiterals + kLengthCodes) {
      count = ReadCount(bits, symbol - kLiterals);
      ReadCount(bits, codes[4].Read(bits));
    }
    if (count > pixels - pixel) return false;
    pixel += count;
  }
  return true;
}

size_t BlocksOf(Size size, int block_bits) {
  const int side_px = 1 << block_bits;
  return size_t{1} * CeilDiv(size.width, side_px) * CeilDiv(size.height, side_px);
}

// Reads past one transform. It may pack several pixels of `size` into one. False: corrupt.
bool SkipTransform(BitReader& bits, std::bitset<4>& seen, Size& size) {
  enum { kPredictor, kColor, kSubtractGreen, kColorIndexing };
  const uint32_t type = bits.Read(2);
  if (seen[type]) return false;
  seen[type] = true;
  if (type == kSubtractGreen) return true;
  if (type != kColorIndexing) return SkipImage(bits, BlocksOf(size, bits.Read(3) + 2));
  const int colors = static_cast<int>(bits.Read(8)) + 1;
  const int packing = colors <= 2 ? 3 : colors <= 4 ? 2 : colors <= 16 ? 1 : 0;
  size.width = CeilDiv(size.width, 1 << packing);
  return SkipImage(bits, colors);
}

}  // namespace

size_t HuffmanTableBytes(Size size) {
  const size_t blocks = std::min(BlocksOf(size, 2), kMaxHuffmanBlocks);
  const size_t pixels = static_cast<size_t>(size.Area());
  return std::max(blocks, std::min(pixels, kGroupsWithGaps)) * kGroupBytes;
}

absl::StatusOr<std::optional<size_t>> CountHuffmanBlocks(std::span<const uint8_t> stream,
                                                         Size size) {
  BitReader bits(stream);
  bool valid = true;
  std::bitset<4> seen;
  while (valid && bits.Read(1) != 0) valid = SkipTransform(bits, seen, size);
  valid = valid && ReadCacheBits(bits) >= 0;
  const bool in_blocks = bits.Read(1) != 0;
  const int block_bits = static_cast<int>(bits.Read(3)) + 2;
  if (bits.overrun()) return std::nullopt;
  if (!valid) return Corrupt();
  return in_blocks ? BlocksOf(size, block_bits) : 1;
}

}  // namespace upscaled
