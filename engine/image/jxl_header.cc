// Sources: ISO/IEC 18181-1, annex D (size header, image metadata), and 18181-2 (boxes).
#include "engine/image/jxl_header.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/orientation.h"

namespace upscaled {
namespace {

constexpr char kJxl[] = "JPEG XL";
// Each costs memory for each pixel.
constexpr uint32_t kMaxJxlExtraChannels = 8;
// By measurement of libjxl 0.7, see memory_test.cc.
constexpr size_t kLibjxlBytes = size_t{48} << 20, kLibjxlBytesPerPixel = 110,
                 kBytesPerExtraChannel = 24;

// Bits of the codestream, the lowest of each byte first. Those beyond the end are 0, and make it
// not ok.
class JxlBits {
 public:
  explicit JxlBits(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint32_t Take(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++position_) {
      ok_ = ok_ && position_ / 8 < bytes_.size();
      if (ok_) value |= uint32_t{bytes_[position_ / 8]} >> position_ % 8 << 31 >> (31 - i);
    }
    return value;
  }
  bool TakeBool() { return Take(1) != 0; }

  // One of four forms: `bits` more bits and an addend.
  struct Form {
    int bits;
    uint32_t offset;
  };
  uint32_t TakeU32(Form a, Form b, Form c, Form d) {
    const Form form = std::array{a, b, c, d}[Take(2)];
    return form.offset + Take(form.bits);
  }
  uint32_t TakeEnum() { return TakeU32({0, 0}, {0, 1}, {4, 2}, {6, 18}); }

  bool ok() const { return ok_; }

 private:
  const std::span<const uint8_t> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// The other side of an image by one of the numbered ratios.
uint64_t SideByRatio(uint32_t ratio, uint64_t height) {
  constexpr uint32_t kRatios[][2] = {{1, 1}, {1, 1},  {12, 10}, {4, 3},
                                     {3, 2}, {16, 9}, {5, 4},   {2, 1}};
  return height * kRatios[ratio][0] / kRatios[ratio][1];
}

class JxlParser {
 public:
  JxlParser(std::span<const uint8_t> codestream, const DecodeLimits& limits)
      : bits_(codestream.subspan(2)), limits_(limits) {}

  // nullopt: the codestream ends before its header does.
  absl::StatusOr<std::optional<JxlLayout>> Parse() {
    const auto [width, height] = TakeSize();
    if (!bits_.ok()) return std::nullopt;
    RETURN_IF_ERROR(
        CheckImageSize(kJxl, static_cast<int64_t>(width), static_cast<int64_t>(height), limits_));
    layout_.size = {static_cast<int>(width), static_cast<int>(height)};
    if (const bool all_default = bits_.TakeBool(); !all_default) {
      const absl::Status status = ParseMetadata();
      if (bits_.ok()) RETURN_IF_ERROR(status);
    }
    return bits_.ok() ? std::optional(layout_) : std::nullopt;
  }

 private:
  struct Sides {
    uint64_t width, height;
  };

  Sides TakeSize() {
    const bool small = bits_.TakeBool();
    const auto side = [&]() -> uint64_t {
      return small ? 8 * (uint64_t{bits_.Take(5)} + 1)
                   : bits_.TakeU32({9, 1}, {13, 1}, {18, 1}, {30, 1});
    };
    const uint64_t height = side();
    const uint32_t ratio = bits_.Take(3);
    return {ratio == 0 ? side() : SideByRatio(ratio, height), height};
  }

  void SkipPreview() {
    const bool by_eight = bits_.TakeBool();
    const auto skip_side = [&] {
      if (by_eight)
        bits_.TakeU32({0, 16}, {0, 32}, {5, 1}, {9, 33});
      else
        bits_.TakeU32({6, 1}, {8, 65}, {10, 321}, {12, 1345});
    };
    skip_side();
    if (bits_.Take(3) == 0) skip_side();
  }

  void SkipAnimation() {
    bits_.TakeU32({0, 100}, {0, 1000}, {10, 1}, {30, 1});
    bits_.TakeU32({0, 1}, {0, 1001}, {8, 1}, {10, 1});
    bits_.TakeU32({0, 0}, {3, 0}, {16, 0}, {32, 0});
    bits_.TakeBool();
  }

  struct Depth {
    int bits;
    bool is_float;
  };
  Depth TakeDepth() {
    const bool is_float = bits_.TakeBool();
    if (!is_float)
      return {static_cast<int>(bits_.TakeU32({0, 8}, {0, 10}, {0, 12}, {6, 1})), false};
    const auto bits = static_cast<int>(bits_.TakeU32({0, 32}, {0, 16}, {0, 24}, {6, 1}));
    bits_.Take(4);
    return {bits, true};
  }

  absl::Status ParseMetadata() {
    if (const bool extra_fields = bits_.TakeBool(); extra_fields) {
      layout_.orientation = static_cast<Orientation>(bits_.Take(3) + 1);
      if (SwapsSides(layout_.orientation)) std::swap(layout_.size.width, layout_.size.height);
      if (bits_.TakeBool()) TakeSize();  // to show it in
      if (bits_.TakeBool()) SkipPreview();
      layout_.is_animation = bits_.TakeBool();
      if (layout_.is_animation) SkipAnimation();
    }
    const Depth depth = TakeDepth();
    layout_.bits = depth.bits;
    layout_.is_float = depth.is_float;
    bits_.TakeBool();
    const uint32_t extra = bits_.TakeU32({0, 0}, {0, 1}, {4, 2}, {12, 1});
    if (extra > kMaxJxlExtraChannels)
      return absl::UnimplementedError(absl::StrCat(kJxl, ": ", extra,
                                                   " channels beside the colours are not read; the "
                                                   "limit is ",
                                                   kMaxJxlExtraChannels));
    layout_.extra_channels = static_cast<int>(extra);
    for (uint32_t i = 0; i < extra; ++i) RETURN_IF_ERROR(ParseExtraChannel());
    bits_.TakeBool();  // XYB
    ParseColours();
    return absl::OkStatus();
  }

  absl::Status ParseExtraChannel() {
    constexpr uint32_t kAlpha = 0, kSpot = 2, kBlack = 4, kFilter = 5;
    uint32_t type = kAlpha;
    if (const bool all_default = bits_.TakeBool(); !all_default) {
      type = bits_.TakeEnum();
      TakeDepth();
      bits_.TakeU32({0, 0}, {0, 3}, {0, 4}, {3, 1});
      const uint32_t name = bits_.TakeU32({0, 0}, {4, 0}, {5, 16}, {10, 48});
      for (uint32_t i = 0; i < name; ++i) bits_.Take(8);
      if (type == kAlpha) bits_.TakeBool();
      for (int i = 0; i < 4 && type == kSpot; ++i) bits_.Take(16);
      if (type == kFilter) bits_.TakeU32({0, 1}, {2, 0}, {4, 3}, {8, 19});
    }
    if (type == kBlack) return absl::UnimplementedError("JPEG XL: CMYK is not read");
    layout_.has_alpha = layout_.has_alpha || type == kAlpha;
    return absl::OkStatus();
  }

  void ParseColours() {
    constexpr uint32_t kGray = 1, kXyb = 2, kCustom = 2;
    if (bits_.TakeBool()) return;  // sRGB
    const bool has_profile = bits_.TakeBool();
    const uint32_t space = bits_.TakeEnum();
    layout_.is_gray = space == kGray;
    if (has_profile || space == kXyb) return;
    const auto skip_points = [this](int points) {
      for (int i = 0; i < 2 * points; ++i)
        bits_.TakeU32({19, 0}, {19, 524288}, {20, 1048576}, {21, 2097152});
    };
    if (bits_.TakeEnum() == kCustom) skip_points(1);
    if (space != kGray && bits_.TakeEnum() == kCustom) skip_points(3);
    const bool has_gamma = bits_.TakeBool();
    if (has_gamma) bits_.Take(24);
    layout_.transfer = has_gamma ? 0 : bits_.TakeEnum();
  }

  JxlBits bits_;
  const DecodeLimits& limits_;
  JxlLayout layout_;
};

// The beginning of the codestream, without the boxes around it.
struct Codestream {
  std::vector<uint8_t> bytes;
  size_t end = 0;  // in the file, of the bytes that were looked at
};

constexpr std::string_view kJxlContainer("\0\0\0\x0cJXL \r\n\x87\n", 12);
// An image header takes some hundred bytes; names of channels, more.
constexpr size_t kMaxJxlHeaderBytes = size_t{64} << 10;

absl::StatusOr<Codestream> FindCodestream(std::span<const uint8_t> prefix,
                                          const DecodeLimits& limits) {
  const auto take = [&](size_t begin, size_t end) {
    end = std::min({end, prefix.size(), begin + kMaxJxlHeaderBytes});
    return begin < end ? prefix.subspan(begin, end - begin) : std::span<const uint8_t>();
  };
  const bool is_boxed = prefix.size() >= kJxlContainer.size() &&
                        std::equal(kJxlContainer.begin(), kJxlContainer.end(), prefix.begin(),
                                   [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
  if (!is_boxed) {
    const auto all = take(0, prefix.size());
    return Codestream{{all.begin(), all.end()}, all.size()};
  }
  Codestream found;
  uint64_t position = kJxlContainer.size();
  while (prefix.size() >= position + 16) {
    uint64_t size = LoadBe32(&prefix[position]), header = 8;
    const std::string_view type(reinterpret_cast<const char*>(&prefix[position + 4]), 4);
    if (size == 1) {
      size = uint64_t{LoadBe32(&prefix[position + 8])} << 32 | LoadBe32(&prefix[position + 12]);
      header = 16;
    }
    constexpr uint64_t kFar = uint64_t{1} << 60;
    if (size == 0) size = kFar;  // to the end of the file
    if (size < header || size > kFar)
      return absl::InvalidArgumentError(
          absl::StrCat(kJxl, ": a box of ", size, " bytes stands at byte ", position));
    const uint64_t end = position + size;
    const bool is_part = type == "jxlp";
    if (is_part || type == "jxlc") {
      const auto part = take(position + header + (is_part ? 4 : 0), end);
      found.bytes.insert(found.bytes.end(), part.begin(), part.end());
      found.end = std::min<uint64_t>(end, prefix.size());
      if (!is_part || found.bytes.size() >= kMaxJxlHeaderBytes) return found;
    } else {
      RETURN_IF_ERROR(CheckMetadataBytes(kJxl, end, limits));
    }
    position = end;
  }
  return found;
}

}  // namespace

absl::StatusOr<std::optional<JxlLayout>> ParseJxlLayout(std::span<const uint8_t> prefix,
                                                        const DecodeLimits& limits) {
  ASSIGN_OR_RETURN(const Codestream codestream, FindCodestream(prefix, limits));
  if (codestream.bytes.size() < 2) return std::nullopt;
  if (codestream.bytes[0] != 0xFF || codestream.bytes[1] != 0x0A)
    return absl::InvalidArgumentError("JPEG XL: its codestream does not begin as one");
  ASSIGN_OR_RETURN(std::optional<JxlLayout> layout, JxlParser(codestream.bytes, limits).Parse());
  if (layout.has_value()) layout->header_end = codestream.end;
  if (!layout.has_value() && codestream.bytes.size() >= kMaxJxlHeaderBytes)
    return absl::InvalidArgumentError("JPEG XL: its image header has no end");
  return layout;
}

absl::StatusOr<std::optional<ImageHeader>> ParseJxlHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits, bool) {
  ASSIGN_OR_RETURN(const std::optional<JxlLayout> layout, ParseJxlLayout(prefix, limits));
  if (!layout.has_value()) return std::nullopt;
  const bool wide = layout->bits > 8 || layout->is_float;
  ImageHeader header;
  header.format = ImageFormat::kJxl;
  header.spec = {layout->size.width, layout->size.height,
                 (layout->is_gray ? 1 : kRgbChannels) + (layout->has_alpha ? 1 : 0),
                 wide ? SampleType::kU16 : SampleType::kU8};
  header.may_move = layout->is_animation;
  if (layout->transfer == 16) header.hdr = "PQ";
  if (layout->transfer == 18) header.hdr = "HLG";
  if (layout->is_float)
    header.warnings.push_back(
        "JPEG XL: floating-point samples become 16 bits; those beyond 0 to 1 are cut off");
  else if (layout->bits > 16)
    header.warnings.push_back(absl::StrCat("JPEG XL: ", layout->bits, " bits a sample become 16"));
  if (const int others = layout->extra_channels - (layout->has_alpha ? 1 : 0); others > 0)
    header.warnings.push_back(
        absl::StrCat("JPEG XL: ", others, " channels are neither colour nor alpha and left out"));
  header.prefix_bytes = HeaderBufferBytes(layout->header_end);
  header.metadata_bytes = limits.max_metadata_bytes;
  header.decoder_bytes = header.prefix_bytes + 2 * header.metadata_bytes + kLibjxlBytes +
                         ImageBytes(header.spec) +
                         (kLibjxlBytesPerPixel + kBytesPerExtraChannel * layout->extra_channels) *
                             static_cast<size_t>(layout->size.Area());
  return header;
}

}  // namespace upscaled
