// Source: TIFF 6.0, section 20.
#include "engine/image/tiff_colour.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/image/colour_profile.h"
#include "engine/image/endian.h"

namespace upscaled {
namespace {

struct ColourTag {
  TiffTag tag;
  const char* name;
};
constexpr ColourTag kColourTags[] = {{kTiffWhitePoint, "WhitePoint"},
                                     {kTiffPrimaryChromaticities, "PrimaryChromaticities"},
                                     {kTiffTransferFunction, "TransferFunction"}};

std::string InHundredThousandths(double value) {
  uint8_t bytes[4];
  StoreBe32(static_cast<uint32_t>(std::lround(value * 100'000)), bytes);
  return {reinterpret_cast<const char*>(bytes), sizeof(bytes)};
}

// The chunk of `white` and `primaries`: x and y of each. nullopt: they are no chromaticities.
std::optional<ColourChunk> ChromaticitiesOf(const TiffFile& file, const TiffEntry& white,
                                            const TiffEntry& primaries) {
  ColourChunk chunk{.type = "cHRM", .data = {}};
  for (int i = 0; i < 8; ++i) {
    const double value = i < 2 ? file.Rational(white, i) : file.Rational(primaries, i - 2);
    if (value < 0 || value > 1) return std::nullopt;
    chunk.data += InHundredThousandths(value);
  }
  return AreChromaticities(chunk.data) ? std::optional(std::move(chunk)) : std::nullopt;
}

double SrgbLight(double sample) {
  return sample <= 0.04045 ? sample / 12.92 : std::pow((sample + 0.055) / 1.055, 2.4);
}

// The light of each sample, by the first table of a TransferFunction.
class TransferTable {
 public:
  TransferTable(const TiffFile& file, const TiffEntry& entry, uint64_t size)
      : file_(file), entry_(entry), size_(size) {}

  bool IsSrgb() const { return Follows(SrgbLight); }

  // nullopt: its values are no power of samples.
  std::optional<double> Exponent() const {
    const uint64_t middle = size_ / 2;
    const double light = Light(middle);
    if (light <= 0 || light >= 1) return std::nullopt;
    const double exponent = std::log(light) / std::log(Sample(middle));
    const auto power = [exponent](double sample) { return std::pow(sample, exponent); };
    return Follows(power) ? std::optional(exponent) : std::nullopt;
  }

 private:
  double Sample(uint64_t i) const {
    return static_cast<double>(i) / static_cast<double>(size_ - 1);
  }
  double Light(uint64_t i) const { return file_.Number(entry_, i) / 65535.0; }

  template <typename Curve>
  bool Follows(const Curve& curve) const {
    constexpr double kTolerance = 0.002;  // half a step of 8 bits
    for (uint64_t i = 0; i < size_; ++i)
      if (std::abs(Light(i) - curve(Sample(i))) > kTolerance) return false;
    return true;
  }

  const TiffFile& file_;
  const TiffEntry& entry_;
  const uint64_t size_;
};

// Whether the tables in `entry`, one or one of each colour, are the same curve, and either sRGB's
// or a power. Adds the chunk of a power.
bool AddTransfer(const TiffFile& file, const TiffEntry& entry, uint64_t table_size,
                 std::vector<ColourChunk>& chunks) {
  if (entry.count != table_size && entry.count != 3 * table_size) return false;
  for (uint64_t i = table_size; i < entry.count; ++i)
    if (file.Number(entry, i) != file.Number(entry, i % table_size)) return false;
  const TransferTable table(file, entry, table_size);
  if (table.IsSrgb()) return true;
  constexpr double kMinExponent = 0.1, kMaxExponent = 100;  // of a chunk that is heeded
  const double exponent = table.Exponent().value_or(0);
  if (exponent < kMinExponent || exponent > kMaxExponent) return false;
  chunks.push_back({.type = "gAMA", .data = InHundredThousandths(1 / exponent)});
  return true;
}

}  // namespace

bool IsTiffColour(uint16_t tag) {
  return std::ranges::count(kColourTags, tag, &ColourTag::tag) > 0;
}

std::vector<ColourChunk> ReadTiffColours(const TiffFile& file, const TiffDirectory& directory,
                                         int bits, std::vector<std::string>& warnings) {
  constexpr int kMaxBits = 16;
  std::vector<ColourChunk> chunks;
  std::vector<uint16_t> read;
  const TiffEntry* const white = file.FindHeld(directory, kTiffWhitePoint, 2);
  const TiffEntry* const primaries = file.FindHeld(directory, kTiffPrimaryChromaticities, 6);
  if (white != nullptr && primaries != nullptr) {
    if (std::optional<ColourChunk> chunk = ChromaticitiesOf(file, *white, *primaries)) {
      chunks.push_back(*std::move(chunk));
      read = {kTiffWhitePoint, kTiffPrimaryChromaticities};
    }
  }
  const uint64_t table_size = uint64_t{1} << std::min(bits, kMaxBits);
  const TiffEntry* const transfer = file.FindHeld(directory, kTiffTransferFunction, table_size);
  if (transfer != nullptr && bits <= kMaxBits && AddTransfer(file, *transfer, table_size, chunks))
    read.push_back(kTiffTransferFunction);

  std::vector<std::string> left;
  for (const ColourTag& one : kColourTags)
    if (directory.Find(one.tag) != nullptr && std::ranges::count(read, one.tag) == 0)
      left.emplace_back(one.name);
  if (!left.empty())
    warnings.push_back(absl::StrCat("TIFF: colours by ", absl::StrJoin(left, ", "),
                                    " are left out: the values are incomplete, or no profile "
                                    "states them"));
  return chunks;
}

}  // namespace upscaled
