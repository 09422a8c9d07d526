#include "server/handlers/tile_place.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/cells.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Keeps the arithmetic of a pass's coordinates far from overflow.
constexpr int kMaxImageSidePx = 1 << 20;
// The limit of a message's pixels: protobuf counts a message's bytes in int.
constexpr int64_t kMaxResultBytes = std::numeric_limits<int32_t>::max() - (int64_t{64} << 10);

absl::Status InvalidTile(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage, message);
}

std::string Describe(const Rect& r) {
  return absl::StrFormat("%d x %d pixels at (%d, %d)", r.width, r.height, r.x, r.y);
}

absl::StatusOr<SampleType> SourceType(int bits) {
  if (bits == 8) return SampleType::kU8;
  if (bits == 16) return SampleType::kU16;
  return InvalidTile(absl::StrCat("bits_per_sample is ", bits, "; it must be 8 or 16"));
}

absl::StatusOr<SampleType> ResultType(int bits, SampleType source) {
  if (bits == 0) return source;
  if (bits == 32) return SampleType::kF32;
  if (bits == 8 || bits == 16) return SourceType(bits);
  return InvalidTile(absl::StrCat("result_bits_per_sample is ", bits, "; it must be 8, 16 or 32"));
}

absl::Status CheckBytes(const pb::Tile& tile) {
  const int64_t expected =
      int64_t{tile.width_px()} * tile.height_px() * kRgbChannels * (tile.bits_per_sample() / 8);
  if (static_cast<int64_t>(tile.pixels().size()) == expected) return absl::OkStatus();
  return InvalidTile(absl::StrCat("the tile has ", tile.pixels().size(), " bytes of pixels; ",
                                  tile.width_px(), " x ", tile.height_px(), " pixels of ",
                                  kRgbChannels, " samples of ", tile.bits_per_sample(),
                                  " bits have ", expected));
}

absl::Status CheckResultBytes(Size part, int scale, SampleType type) {
  const int64_t bytes =
      part.Area() * scale * scale * kRgbChannels * static_cast<int64_t>(SampleBytes(type));
  if (bytes <= kMaxResultBytes) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                   absl::StrCat("the tile's result of ", part.width, " x ", part.height,
                                " pixels, each way times ", scale, ", has ", bytes,
                                " bytes, more than the ", kMaxResultBytes, " of a message"));
}

bool IsImageSide(int px) { return px >= 1 && px <= kMaxImageSidePx; }
// Whether it is a place or margin: so small that sums of a few stay far from overflow.
bool IsOffset(int px) { return px >= 0 && px <= kMaxImageSidePx; }

// The part of a tile with a place. The tile's own size is checked before.
absl::StatusOr<ImagePart> PartOf(const pb::Tile& tile, const Executable& executable) {
  const pb::TilePlace& place = tile.place();
  const pb::TileMargins& margins = place.margins();
  if (!IsImageSide(place.image_width_px()) || !IsImageSide(place.image_height_px())) {
    return InvalidTile(absl::StrCat("the tile's image is ", place.image_width_px(), " x ",
                                    place.image_height_px(), " pixels; its sides must be 1 to ",
                                    kMaxImageSidePx));
  }
  for (const int px : {place.x_px(), place.y_px(), margins.left_px(), margins.top_px(),
                       margins.right_px(), margins.bottom_px()}) {
    if (!IsOffset(px)) {
      return InvalidTile(absl::StrCat("the tile's place has the number ", px, "; it must be 0 to ",
                                      kMaxImageSidePx));
    }
  }
  ImagePart part{.image = {place.image_width_px(), place.image_height_px()},
                 .source = {place.x_px(), place.y_px(), tile.width_px(), tile.height_px()}};
  part.result = {part.source.x + margins.left_px(), part.source.y + margins.top_px(),
                 part.source.width - margins.left_px() - margins.right_px(),
                 part.source.height - margins.top_px() - margins.bottom_px()};
  if (part.result.empty()) return InvalidTile("the tile's margins leave nothing to compute");
  if (!Rect{0, 0, part.image.width, part.image.height}.Contains(part.source)) {
    return InvalidTile(absl::StrCat("the tile of ", Describe(part.source),
                                    " is outside its image of ", part.image.width, " x ",
                                    part.image.height));
  }
  const Rect needed = executable.Plan(part.result, part.image).input;
  if (!part.source.Contains(needed)) {
    return InvalidTile(absl::StrCat("the result of ", Describe(part.result), " depends on ",
                                    Describe(needed), ", and the tile has ", Describe(part.source),
                                    "; see UpscaleTilesHeader.reach_px"));
  }
  return part;
}

}  // namespace

absl::Status CheckLocal(const Executable& executable) {
  if (!SeesWholeImage(executable)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kUnsupported,
                   "the model sees the whole image, so no part can be computed by itself");
}

absl::StatusOr<PlacedTile> PlaceTile(const pb::Tile& tile, const Limits& limits,
                                     const Executable& executable) {
  if (tile.width_px() <= 0 || tile.height_px() <= 0) {
    return InvalidTile(absl::StrCat("the tile is ", tile.width_px(), " x ", tile.height_px(),
                                    " pixels; both sides must be at least 1"));
  }
  const Size size{tile.width_px(), tile.height_px()};
  RETURN_IF_ERROR(CheckTileSize(limits, size));
  PlacedTile placed;
  ASSIGN_OR_RETURN(const SampleType type, SourceType(tile.bits_per_sample()));
  ASSIGN_OR_RETURN(const SampleType result_type, ResultType(tile.result_bits_per_sample(), type));
  RETURN_IF_ERROR(CheckBytes(tile));
  const Rect whole{0, 0, size.width, size.height};
  placed.part = {size, whole, whole};
  if (tile.has_place()) {
    RETURN_IF_ERROR(CheckLocal(executable));
    ASSIGN_OR_RETURN(placed.part, PartOf(tile, executable));
  }
  if (!executable.ComputesTiles(placed.part.image)) {
    return InvalidTile(absl::StrCat(
        "the tile's image is ", placed.part.image.width, " x ", placed.part.image.height,
        " pixels; tiles of a network of hundreds of layers are of images up to ", kMaxWholeImagePx,
        " x ", kMaxWholeImagePx, ", of about a megapixel"));
  }
  if (const auto cells = CellsOf(executable.network(), placed.part.image)) {
    return InvalidTile(absl::StrCat(
        "the tile is an image of ", placed.part.image.width, " x ", placed.part.image.height,
        " pixels; the model ", WhyCells(executable.network()),
        ", and computes such images in cells of ", cells->cell().width, " x ", cells->cell().height,
        " pixels: call UpscaleImage, or send each cell as a tile"));
  }
  const int scale = executable.network().scale;
  const Size part{placed.part.result.width, placed.part.result.height};
  RETURN_IF_ERROR(CheckResultBytes(part, scale, result_type));
  placed.source = {size.width, size.height, kRgbChannels, type};
  placed.result = {placed.part.result.width * scale, placed.part.result.height * scale,
                   kRgbChannels, result_type};
  return placed;
}

}  // namespace upscaled::server
