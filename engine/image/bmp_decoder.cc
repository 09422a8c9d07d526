// Source: as bmp_header.cc. Rows are stored from the lowest to the highest, unless stated.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/bmp_header.h"
#include "engine/image/buffered_source.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/whole_image.h"

namespace upscaled {
namespace {

constexpr char kBmpTruncated[] = "BMP: the file is truncated";

// One channel of pixels with several.
class MaskedChannel {
 public:
  explicit MaskedChannel(uint32_t mask)
      : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)), max_(mask >> shift_) {
    // The upper eight of more bits are kept.
    for (; max_ > UINT8_MAX; max_ >>= 1) ++shift_;
  }

  uint8_t Of(uint32_t pixel) const {
    if (max_ == 0) return 0;
    return static_cast<uint8_t>((((pixel & mask_) >> shift_) * UINT8_MAX + max_ / 2) / max_);
  }

 private:
  uint32_t mask_;
  int shift_;
  uint32_t max_;
};

class BmpReader final : public WholeImage {
 public:
  BmpReader(std::unique_ptr<ReplaySource> source, const BmpLayout& layout, const ImageSpec& spec,
            const DecodeLimits& limits, const Cancellation* cancellation)
      : WholeImage(spec, limits.fill_damage),
        layout_(layout),
        max_metadata_bytes_(limits.max_metadata_bytes),
        source_(std::move(source), cancellation) {}

  absl::Status Start();

 private:
  absl::Status Decode(MutableImageView image) override;
  absl::Status ReadPalette();
  absl::Status DecodePlain(MutableImageView image);
  void ExpandRow(const uint8_t* stored, uint8_t* dst) const;
  absl::Status DecodeRuns(MutableImageView image);
  absl::Status ReadProfile();
  void MakeOpaqueIfAllIsClear(MutableImageView image);

  // The row of the image stored as row `y`.
  int RowOf(int y) const { return layout_.top_down ? y : spec().height_px - 1 - y; }
  // The rows from the stored row `y` on are missing.
  absl::Status LackFrom(MutableImageView image, int y) {
    return layout_.top_down ? LackRows(image, y, spec().height_px, kBmpTruncated)
                            : LackRows(image, 0, spec().height_px - y, kBmpTruncated);
  }
  void Put(uint8_t index, uint8_t* dst) const { std::memcpy(dst, &palette_[3 * index], 3); }

  const BmpLayout layout_;
  const size_t max_metadata_bytes_;
  BufferedSource source_;
  std::array<uint8_t, 3 * 256> palette_ = {};  // RGB; black beyond the entries there are
};

absl::Status BmpReader::Start() {
  metadata.density = layout_.density;
  if (layout_.profile_bytes == 0) return absl::OkStatus();
  // It mostly stands behind the pixels.
  RETURN_IF_ERROR(DecodeNow());
  return ReadProfile();
}

absl::Status BmpReader::ReadProfile() {
  const auto leave_out = [this](absl::string_view why) {
    warnings.push_back(absl::StrCat("BMP: the colour profile is left out: ", why));
    return absl::OkStatus();
  };
  if (layout_.profile_bytes > max_metadata_bytes_)
    return leave_out(absl::StrCat("it has ", layout_.profile_bytes, " bytes; the limit is ",
                                  max_metadata_bytes_));
  if (layout_.profile_offset < source_.position())
    return leave_out("it stands before the pixels' end");
  ASSIGN_OR_RETURN(const bool found, source_.Skip(layout_.profile_offset - source_.position()));
  std::vector<uint8_t> profile(found ? layout_.profile_bytes : 0);
  ASSIGN_OR_RETURN(const size_t count, source_.Read(profile));
  if (count < layout_.profile_bytes) return leave_out("the file ends before its end");
  metadata.icc_profile.assign(profile.begin(), profile.end());
  return absl::OkStatus();
}

absl::Status BmpReader::Decode(MutableImageView image) {
  RETURN_IF_ERROR(ReadPalette());
  RETURN_IF_ERROR(layout_.coding == BmpCoding::kPlain ? DecodePlain(image) : DecodeRuns(image));
  if (spec().has_alpha()) MakeOpaqueIfAllIsClear(image);
  return absl::OkStatus();
}

absl::Status BmpReader::ReadPalette() {
  RETURN_IF_ERROR(source_.Skip(layout_.palette_offset).status());
  for (size_t i = 0; i < layout_.palette_entries; ++i) {
    uint8_t bgr[4] = {};
    RETURN_IF_ERROR(source_.Read({bgr, layout_.palette_entry_bytes}).status());
    for (int c = 0; c < 3; ++c) palette_[3 * i + c] = bgr[2 - c];
  }
  return source_.Skip(layout_.pixels_offset - source_.position()).status();
}

absl::Status BmpReader::DecodePlain(MutableImageView image) {
  std::vector<uint8_t> stored(layout_.stored_row_bytes());
  // The last row may lack its padding.
  const size_t needed = (static_cast<size_t>(spec().width_px) * layout_.bits_per_pixel + 7) / 8;
  std::optional<uint32_t> first_rest;  // bits of a pixel that no mask names
  bool rest_varies = false;
  for (int y = 0; y < spec().height_px; ++y) {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(stored));
    if (count < needed) return LackFrom(image, y);
    ExpandRow(stored.data(), image.row(RowOf(y)));
    for (size_t x = 0; layout_.bits_per_pixel == 32 && x < stored.size() && !rest_varies; x += 4) {
      const uint32_t rest = LoadLe32(&stored[x]) & ~layout_.named_bits();
      rest_varies = rest != first_rest.value_or(rest);
      first_rest = rest;
    }
  }
  if (rest_varies)
    warnings.push_back(
        "BMP: bits of its pixels that the header does not name vary; they may be alpha, and are "
        "left out");
  return absl::OkStatus();
}

void BmpReader::ExpandRow(const uint8_t* stored, uint8_t* dst) const {
  const int bits = layout_.bits_per_pixel, channels = spec().channels;
  if (bits <= 8) {
    for (int x = 0; x < spec().width_px; ++x, dst += channels) {
      const int bit = x * bits;
      Put(stored[bit / 8] >> (8 - bits - bit % 8) & ((1 << bits) - 1), dst);
    }
    return;
  }
  const MaskedChannel channel[] = {MaskedChannel(layout_.masks[0]), MaskedChannel(layout_.masks[1]),
                                   MaskedChannel(layout_.masks[2]),
                                   MaskedChannel(layout_.masks[3])};
  for (int x = 0; x < spec().width_px; ++x, stored += bits / 8, dst += channels) {
    const uint32_t pixel = bits == 16   ? LoadLe16(stored)
                           : bits == 24 ? LoadLe24(stored)
                                        : LoadLe32(stored);
    for (int c = 0; c < channels; ++c) dst[c] = channel[c].Of(pixel);
  }
}

// Pixels without a run have the first colour of the palette.
absl::Status BmpReader::DecodeRuns(MutableImageView image) {
  const bool is_rle4 = layout_.coding == BmpCoding::kRle4;
  const int width = spec().width_px, height = spec().height_px;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) Put(0, image.row(y) + 3 * x);

  int x = 0, y = 0;
  const auto put = [&](uint8_t index) {
    if (x < width) Put(index, image.row(RowOf(y)) + 3 * x);
    x += x < width ? 1 : 0;
  };
  const auto nibble = [&](uint8_t byte, int i) -> uint8_t {
    return i % 2 == 0 ? byte >> 4 : byte & 15;
  };
  while (y < height) {
    uint8_t code[2];
    ASSIGN_OR_RETURN(const size_t count, source_.Read(code));
    if (count < 2) return y == height - 1 && x == width ? absl::OkStatus() : LackFrom(image, y);
    const int length = code[0];
    if (length > 0) {
      for (int i = 0; i < length; ++i) put(is_rle4 ? nibble(code[1], i) : code[1]);
    } else if (code[1] == 0) {  // the end of a row
      x = 0;
      ++y;
    } else if (code[1] == 1) {  // the end of the image
      return absl::OkStatus();
    } else if (code[1] == 2) {  // a step to the right and up
      uint8_t step[2];
      ASSIGN_OR_RETURN(const size_t steps, source_.Read(step));
      if (steps < 2) return LackFrom(image, y);
      x = std::min(x + step[0], width);
      y += step[1];
    } else {  // pixels one by one, up to an even number of bytes
      uint8_t pixels[256];
      const int bytes = is_rle4 ? (code[1] + 1) / 2 : code[1];
      ASSIGN_OR_RETURN(const size_t got, source_.Read({pixels, size_t(bytes + bytes % 2)}));
      if (got < size_t(bytes)) return LackFrom(image, y);
      for (int i = 0; i < code[1]; ++i) put(is_rle4 ? nibble(pixels[i / 2], i) : pixels[i]);
    }
  }
  return absl::OkStatus();
}

// Writers of alpha bytes of 0 throughout mean no clear image.
void BmpReader::MakeOpaqueIfAllIsClear(MutableImageView image) {
  const auto each_alpha = [&](auto&& visit) {
    for (int y = 0; y < spec().height_px; ++y)
      for (int x = 0; x < spec().width_px; ++x)
        if (!visit(image.row(y)[4 * x + 3])) return false;
    return true;
  };
  if (!each_alpha([](uint8_t alpha) { return alpha == 0; })) return;
  each_alpha([](uint8_t& alpha) {
    alpha = UINT8_MAX;
    return true;
  });
  warnings.push_back("BMP: all pixels are transparent by their alpha, which is taken for unused");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenBmpDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits,
                                                             const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(const std::optional<BmpLayout> layout, ParseBmpLayout(source->prefix()));
  if (!layout.has_value()) return absl::InternalError("BMP: the header was read from more bytes");
  auto reader =
      std::make_unique<BmpReader>(std::move(source), *layout, header.spec, limits, cancellation);
  RETURN_IF_ERROR(reader->Start());
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
