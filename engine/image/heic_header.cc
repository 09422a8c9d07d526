#include "engine/image/heic_header.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/heif_header.h"
#include "engine/image/hevc_parameters.h"

namespace upscaled {
namespace {

constexpr char kHeic[] = "HEIC";
// By measurement of libde265 and libavif, see heic_test.cc: a decoder, and for a pixel of a tile
// what blocks are predicted and filtered by, and two copies of its samples.
constexpr size_t kDe265Bytes = size_t{16} << 20, kDe265BytesPerPixel = 12;
constexpr size_t kAlphaBytesPerPixel = 4;  // twice, while it becomes as deep as the colours

bool IsHevc(const HeifItem& item) {
  return item.type == BoxType("hvc1") || item.type == BoxType("hev1");
}

}  // namespace

absl::StatusOr<HevcConfiguration> HeicConfigurationOf(const HeifItems& items, uint32_t item) {
  uint32_t coded = item;
  if (items.At(item).type == BoxType("grid")) {
    const std::vector<uint32_t> tiles = items.ReferencesFrom(BoxType("dimg"), item);
    if (tiles.empty()) return HeicFault("a grid has no tiles");
    coded = tiles[0];
  }
  if (!IsHevc(items.At(coded)))
    return HeicFault(absl::StrCat("item ", coded, " is coded as \"", BoxName(items.At(coded).type),
                                  "\"; HEVC (hvc1), and grids of it, are read"));
  for (const HeifItems::Property& property : items.PropertiesOf(coded))
    if (property.type == BoxType("hvcC")) return ParseHevcConfiguration(property.payload);
  return HeicFault(absl::StrCat("item ", coded, " has no parameters (hvcC)"));
}

absl::StatusOr<std::optional<ImageHeader>> ParseHeicHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits, bool) {
  ASSIGN_OR_RETURN(std::optional<HeifLayout> layout, ParseHeifLayout(kHeic, prefix, limits));
  if (!layout.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(const HevcConfiguration configuration,
                   HeicConfigurationOf(layout->items, layout->picture));
  const HevcSequence& sequence = configuration.sequence;
  if (IsHevc(layout->items.At(layout->picture)) && sequence.shown != layout->size)
    return HeicFault(absl::StrCat("the picture has ", sequence.shown.width, " x ",
                                  sequence.shown.height, " px; the file says ", layout->size.width,
                                  " x ", layout->size.height));
  RETURN_IF_ERROR(CheckImageSize(kHeic, sequence.coded.width, sequence.coded.height, limits));
  layout->bits = sequence.bits;
  layout->is_gray = sequence.chroma == 0;
  const size_t planes = HevcBytesPerPixel(sequence);
  const size_t tile_bytes =
      sequence.coded.Area() * (kDe265BytesPerPixel + 2 * planes) + 2 * layout->file_end;
  ASSIGN_OR_RETURN(
      ImageHeader header,
      MakeHeifHeader(kHeic, *layout, kDe265Bytes + tile_bytes,
                     planes + (layout->alpha.has_value() ? kAlphaBytesPerPixel : 0), limits));
  header.format = ImageFormat::kHeic;
  // RGB of a gray image, before it is gray.
  if (layout->is_gray) header.decoder_bytes += 4 * ImageBytes(header.spec);
  if (layout->alpha.has_value()) {
    ASSIGN_OR_RETURN(const HevcConfiguration alpha,
                     HeicConfigurationOf(layout->items, *layout->alpha));
    RETURN_IF_ERROR(
        CheckImageSize(kHeic, alpha.sequence.coded.width, alpha.sequence.coded.height, limits));
    header.decoder_bytes +=
        alpha.sequence.coded.Area() * (kDe265BytesPerPixel + 3 * HevcBytesPerPixel(alpha.sequence));
  }
  const bool is_sequence =
      HasBrand(prefix, "hevc") || HasBrand(prefix, "hevx") || HasBrand(prefix, "msf1");
  if (is_sequence && limits.warns_of_frames)
    header.warnings.push_back(absl::StrCat("HEIC: it is a sequence: its ",
                                           layout->is_track ? "first" : "primary",
                                           " picture is computed, the others are left out"));
  return header;
}

}  // namespace upscaled
