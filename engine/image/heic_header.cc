#include "engine/image/heic_header.h"

#include <algorithm>

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
// the state for predicting and filtering blocks, and two copies of its samples.
constexpr size_t kDe265Bytes = size_t{16} << 20, kDe265BytesPerPixel = 12;
constexpr size_t kDeepestAlphaBytes = 2;  // a pixel, once it is as deep as the colours

bool IsHevc(const HeifItem& item) {
  return item.type == BoxType("hvc1") || item.type == BoxType("hev1");
}

// Bytes to decode one tile of a picture, while the file is held, too.
size_t TileBytes(const HevcSequence& tile, uint64_t file_bytes) {
  return tile.coded.Area() * (kDe265BytesPerPixel + 2 * HevcBytesPerPixel(tile)) + 2 * file_bytes;
}

// A few bytes may repeat a tile with few visible pixels, as often as a grid has places.
absl::Status CheckCodedPixels(const HeifLayout& layout, uint32_t item, const HevcSequence& tile,
                              const DecodeLimits& limits) {
  RETURN_IF_ERROR(CheckImageSize(kHeic, tile.coded.width, tile.coded.height, limits));
  constexpr int64_t kPerPixel = 4, kSpare = int64_t{4} << 20;
  const bool is_grid = layout.items.At(item).type == BoxType("grid");
  const int64_t tiles =
      is_grid ? std::ssize(layout.items.ReferencesFrom(BoxType("dimg"), item)) : 1;
  const int64_t coded = tiles * tile.coded.Area(), limit = kPerPixel * layout.size.Area() + kSpare;
  if (coded <= limit) return absl::OkStatus();
  return HeicFault(absl::StrCat("item ", item, " has ", coded, " coded pixels for the ",
                                layout.size.Area(), " that it shows; the limit is ", limit));
}

}  // namespace

absl::StatusOr<HevcConfiguration> HevcConfigurationOf(const HeifItems& items, uint32_t item) {
  if (!IsHevc(items.At(item)))
    return HeicFault(absl::StrCat("item ", item, " is coded as \"", BoxName(items.At(item).type),
                                  "\"; HEVC (hvc1), and grids of it, are read"));
  for (const HeifItems::Property& property : items.PropertiesOf(item))
    if (property.type == BoxType("hvcC")) return ParseHevcConfiguration(property.payload);
  return HeicFault(absl::StrCat("item ", item, " has no parameters (hvcC)"));
}

absl::StatusOr<HevcConfiguration> HeicConfigurationOf(const HeifItems& items, uint32_t item) {
  if (items.At(item).type != BoxType("grid")) return HevcConfigurationOf(items, item);
  const std::vector<uint32_t> tiles = items.ReferencesFrom(BoxType("dimg"), item);
  if (tiles.empty()) return HeicFault("a grid has no tiles");
  return HevcConfigurationOf(items, tiles[0]);
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
  RETURN_IF_ERROR(CheckCodedPixels(*layout, layout->picture, sequence, limits));
  layout->bits = sequence.bits;
  layout->is_gray = sequence.chroma == 0;
  size_t pixel_bytes = HevcBytesPerPixel(sequence);
  if (layout->is_gray) pixel_bytes += sequence.bits > 8 ? 8 : 4;  // RGB, before it is gray
  size_t tile_bytes = TileBytes(sequence, layout->file_end);
  if (layout->alpha.has_value()) {
    ASSIGN_OR_RETURN(const HevcConfiguration alpha,
                     HeicConfigurationOf(layout->items, *layout->alpha));
    RETURN_IF_ERROR(CheckCodedPixels(*layout, *layout->alpha, alpha.sequence, limits));
    pixel_bytes += HevcBytesPerPixel(alpha.sequence) + kDeepestAlphaBytes;
    tile_bytes = std::max(tile_bytes, TileBytes(alpha.sequence, layout->file_end));
  }
  ASSIGN_OR_RETURN(ImageHeader header,
                   MakeHeifHeader(kHeic, *layout, kDe265Bytes + tile_bytes, pixel_bytes, limits));
  header.format = ImageFormat::kHeic;
  const bool is_sequence =
      HasBrand(prefix, "hevc") || HasBrand(prefix, "hevx") || HasBrand(prefix, "msf1");
  header.may_move = is_sequence;
  if (is_sequence && limits.warns_of_frames)
    header.warnings.push_back(absl::StrCat("HEIC: it is a sequence: its ",
                                           layout->is_track ? "first" : "primary",
                                           " picture is computed, the others are left out"));
  return header;
}

}  // namespace upscaled
