// Sources: ITU-T H.265, sections 7.3.1.1, 7.3.2.2 and 7.3.3; ISO/IEC 14496-15, section 8.3.3.1.
#include "engine/image/hevc_parameters.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/heif_boxes.h"

namespace upscaled {
namespace {

// Bits of a unit, without the bytes against start codes in it. Beyond its end they are 0.
class NalBits {
 public:
  explicit NalBits(std::span<const uint8_t> nal) {
    constexpr size_t kMaxBytes = 256;  // that are of interest
    int zeros = 0;
    for (const uint8_t byte : nal.first(std::min(nal.size(), kMaxBytes))) {
      const bool is_guard = zeros >= 2 && byte == 3;
      zeros = byte == 0 ? zeros + 1 : 0;
      if (!is_guard) bytes_.push_back(byte);
    }
  }

  uint32_t Take(int bits) {
    uint32_t value = 0;
    for (; bits > 0; --bits, ++position_) {
      const size_t byte = position_ / 8;
      ok_ = ok_ && byte < bytes_.size();
      value = value << 1 | (ok_ ? bytes_[byte] >> (7 - position_ % 8) & 1 : 0);
    }
    return value;
  }
  void Skip(size_t bits) { position_ += bits; }
  // An Exp-Golomb code, "ue(v)".
  uint32_t TakeCode() {
    int zeros = 0;
    while (ok_ && Take(1) == 0) ++zeros;
    ok_ = ok_ && zeros < 32;
    return ok_ ? (uint32_t{1} << zeros) - 1 + Take(zeros) : 0;
  }
  bool ok() const { return ok_; }

 private:
  std::vector<uint8_t> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Passes over profile_tier_level.
void SkipProfile(NalBits& bits, int sub_layers) {
  constexpr size_t kProfileBits = 88, kLevelBits = 8;
  bits.Skip(kProfileBits + kLevelBits);
  size_t more = 0;
  for (int i = 0; i < sub_layers; ++i) {
    if (bits.Take(1) != 0) more += kProfileBits;
    if (bits.Take(1) != 0) more += kLevelBits;
  }
  if (sub_layers > 0) more += 2 * (8 - sub_layers);
  bits.Skip(more);
}

}  // namespace

absl::Status HeicFault(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("HEIC: ", what));
}

size_t HevcBytesPerPixel(const HevcSequence& sequence) {
  constexpr size_t kSamples[] = {1, 2, 2, 3};  // 4:2:0 has one and a half, and odd sizes more
  return kSamples[sequence.chroma] * (sequence.bits > 8 ? 2 : 1);
}

absl::StatusOr<HevcSequence> ParseHevcSequence(std::span<const uint8_t> nal) {
  NalBits bits(nal);
  bits.Skip(16 + 4);  // the unit's header, and the video parameter set's number
  const auto sub_layers = static_cast<int>(bits.Take(3));
  bits.Skip(1);
  SkipProfile(bits, sub_layers);
  bits.TakeCode();  // its number
  const uint32_t chroma = bits.TakeCode();
  const bool separate_planes = chroma == 3 && bits.Take(1) != 0;
  const uint32_t width = bits.TakeCode(), height = bits.TakeCode();
  uint64_t left = 0, right = 0, top = 0, bottom = 0;
  if (bits.Take(1) != 0) {
    left = bits.TakeCode();
    right = bits.TakeCode();
    top = bits.TakeCode();
    bottom = bits.TakeCode();
  }
  const uint32_t luma_bits = 8 + bits.TakeCode(), chroma_bits = 8 + bits.TakeCode();
  constexpr uint32_t kMaxSide = 65536;
  if (!bits.ok() || chroma > 3 || width < 1 || height < 1 || width > kMaxSide || height > kMaxSide)
    return HeicFault("the parameters of its pictures are damaged");
  const uint64_t unit_x = chroma == 1 || chroma == 2 ? 2 : 1, unit_y = chroma == 1 ? 2 : 1;
  if (unit_x * (left + right) >= width || unit_y * (top + bottom) >= height)
    return HeicFault("the part of its pictures to show is damaged");
  if (separate_planes || (chroma > 0 && luma_bits != chroma_bits) ||
      (luma_bits != 8 && luma_bits != 10 && luma_bits != 12))
    return HeicFault(absl::StrCat("pictures of ", luma_bits, " bits a sample",
                                  chroma > 0 ? absl::StrCat(", ", chroma_bits, " for colours") : "",
                                  separate_planes ? ", in separate planes," : "",
                                  " are not read; 8, 10 and 12 bits are"));
  return HevcSequence{.coded = {static_cast<int>(width), static_cast<int>(height)},
                      .shown = {static_cast<int>(width - unit_x * (left + right)),
                                static_cast<int>(height - unit_y * (top + bottom))},
                      .chroma = static_cast<int>(chroma),
                      .bits = static_cast<int>(luma_bits)};
}

absl::StatusOr<HevcConfiguration> ParseHevcConfiguration(std::span<const uint8_t> record) {
  constexpr uint64_t kLengthByte = 21, kMaxSets = 64;
  HevcConfiguration configuration;
  std::optional<HevcSequence> sequence;
  BoxReader reader(record);
  reader.TakeBytes(kLengthByte);
  configuration.length_bytes = static_cast<int>(reader.Take(1) & 3) + 1;
  for (uint64_t arrays = reader.Take(1); arrays > 0 && reader.ok(); --arrays) {
    reader.Take(1);  // the type of its units, which they state themselves
    for (uint64_t units = reader.Take(2); units > 0 && reader.ok(); --units) {
      const std::span<const uint8_t> nal = reader.TakeBytes(reader.Take(2));
      if (nal.size() < 2 || configuration.parameter_sets.size() == kMaxSets)
        return HeicFault("the parameters of its pictures are damaged");
      configuration.parameter_sets.push_back(nal);
      if (HevcNalType(nal) != kHevcSequenceNal || HevcNalLayer(nal) != 0) continue;
      ASSIGN_OR_RETURN(const HevcSequence found, ParseHevcSequence(nal));
      if (sequence.has_value() && *sequence != found)
        return HeicFault("it states two sizes or depths of one picture");
      sequence = found;
    }
  }
  if (!reader.ok() || !sequence.has_value())
    return HeicFault("the parameters of its pictures are cut short or missing");
  configuration.sequence = *sequence;
  return configuration;
}

}  // namespace upscaled
