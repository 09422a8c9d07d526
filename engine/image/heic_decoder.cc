// HEIC: pictures by libde265, on the caller's thread, since the cage allows no others; their items
// by our own reader of the boxes; their colours by libavif. Debian's libheif starts a thread
// for each picture, needs an encoder of 16 MB, and has an open flaw (CVE-2026-49271).
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <avif/avif.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/avif_pixels.h"
#include "engine/image/codec_list.h"
#include "engine/image/exif.h"
#include "engine/image/heic_header.h"
#include "engine/image/heif_header.h"
#include "engine/image/hevc_picture.h"
#include "engine/image/read_file.h"
#include "engine/image/whole_image.h"
#include "engine/image/xmp.h"

namespace upscaled {
namespace {

// How tiles lie on a canvas: rows from top to bottom, each from left to right.
struct HeicGrid {
  int columns = 1, rows = 1;
  Size size;
};

// ISO/IEC 23008-12, section 6.6.2.3.
absl::StatusOr<HeicGrid> ParseHeicGrid(std::span<const uint8_t> bytes) {
  BoxReader reader(bytes);
  reader.Take(1);
  const int length_bytes = (reader.Take(1) & 1) != 0 ? 4 : 2;
  HeicGrid grid;
  grid.rows = static_cast<int>(reader.Take(1)) + 1;
  grid.columns = static_cast<int>(reader.Take(1)) + 1;
  const uint64_t width = reader.Take(length_bytes), height = reader.Take(length_bytes);
  constexpr uint64_t kMaxSide = 1'000'000;
  if (!reader.ok() || width > kMaxSide || height > kMaxSide) return HeicFault("a grid is damaged");
  grid.size = {static_cast<int>(width), static_cast<int>(height)};
  return grid;
}

// A few bytes may be named as often as a grid has places: bounds the bytes from all of them to
// decoders.
class TileBudget {
 public:
  explicit TileBudget(uint64_t file_bytes) : left_(4 * file_bytes + (uint64_t{16} << 20)) {}

  absl::Status Charge(const HeifItem& tile, const HevcConfiguration& configuration) {
    constexpr uint64_t kDecoderBytes = 1024;  // to make one
    bool has_room = Take(kDecoderBytes + tile.extents.size() * sizeof(HeifItem::Extent));
    for (const HeifItem::Extent& extent : tile.extents) has_room = has_room && Take(extent.length);
    for (const auto& set : configuration.parameter_sets) has_room = has_room && Take(set.size());
    return has_room ? absl::OkStatus() : HeicFault("the places of a grid share too many bytes");
  }

 private:
  bool Take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

  uint64_t left_;
};

struct DestroyHeicFrame {
  void operator()(avifImage* image) const { avifImageDestroy(image); }
};

class HeicReader final : public WholeImage {
 public:
  HeicReader(const ImageSpec& spec, const DecodeLimits& limits, const Cancellation* cancellation)
      : WholeImage(spec, limits.fill_damage),
        fill_damage_(limits.fill_damage),
        limits_(limits),
        cancellation_(cancellation) {}

  // Reads the file, as far as `file_end`, and decodes it: pictures may state their colours.
  absl::Status Start(ByteSource& source, uint64_t file_end);

 private:
  absl::Status Decode(MutableImageView image) override;
  absl::StatusOr<HevcPlanes> DecodeItem(uint32_t item);
  absl::StatusOr<HeicGrid> GridOf(uint32_t item, const HevcSequence& tile,
                                  std::vector<uint32_t>& tiles) const;
  void AddAlpha(avifImage& frame, HevcPlanes& alpha) const;
  void ReadColours(avifImage& frame, const HevcColours& stated);
  void ReadBlocks();
  std::string Keep(std::string block, absl::string_view name);
  const HeifItems& items() const { return layout_->items; }

  const bool fill_damage_;
  const DecodeLimits limits_;
  const Cancellation* const cancellation_;
  std::vector<uint8_t> file_;
  std::optional<HeifLayout> layout_;
};

absl::Status HeicReader::Start(ByteSource& source, uint64_t file_end) {
  ASSIGN_OR_RETURN(file_, ReadFile(source, file_end, cancellation_));
  if (file_.size() < file_end)
    return HeicFault(absl::StrCat("the file is truncated; ", file_.size(), " of ", file_end,
                                  " bytes were read"));
  ASSIGN_OR_RETURN(layout_, ParseHeifLayout("HEIC", file_, limits_));
  ReadBlocks();
  RETURN_IF_ERROR(DecodeNow());
  layout_.reset();
  file_ = {};
  return absl::OkStatus();
}

absl::StatusOr<HeicGrid> HeicReader::GridOf(uint32_t item, const HevcSequence& tile,
                                            std::vector<uint32_t>& tiles) const {
  if (items().At(item).type != BoxType("grid")) {
    tiles = {item};
    return HeicGrid{.size = tile.shown};
  }
  constexpr uint64_t kMaxBytes = 64;
  ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, items().BytesOf(item, file_, kMaxBytes));
  ASSIGN_OR_RETURN(const HeicGrid grid, ParseHeicGrid(bytes));
  tiles = items().ReferencesFrom(BoxType("dimg"), item);
  const auto covers = [](int length, int count, int tile_length) {
    return length >= 1 && int64_t{count} * tile_length >= length &&
           int64_t{count - 1} * tile_length < length;
  };
  if (std::ssize(tiles) != int64_t{grid.rows} * grid.columns ||
      !covers(grid.size.width, grid.columns, tile.shown.width) ||
      !covers(grid.size.height, grid.rows, tile.shown.height))
    return HeicFault(absl::StrCat("a grid of ", grid.columns, " x ", grid.rows, " tiles has ",
                                  tiles.size(), " of ", tile.shown.width, " x ", tile.shown.height,
                                  " px for ", grid.size.width, " x ", grid.size.height, " px"));
  return grid;
}

absl::StatusOr<HevcPlanes> HeicReader::DecodeItem(uint32_t item) {
  ASSIGN_OR_RETURN(const HevcConfiguration first, HeicConfigurationOf(items(), item));
  std::vector<uint32_t> tiles;
  ASSIGN_OR_RETURN(const HeicGrid grid, GridOf(item, first.sequence, tiles));
  if (grid.size != layout_->size)
    return HeicFault(absl::StrCat("item ", item, " has ", grid.size.width, " x ", grid.size.height,
                                  " px; the image has ", layout_->size.width, " x ",
                                  layout_->size.height));
  HevcPlanes planes(grid.size, first.sequence);
  TileBudget budget(file_.size());
  size_t damaged = 0;
  std::string damage;  // of the first one
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
    ASSIGN_OR_RETURN(const HevcConfiguration configuration, HevcConfigurationOf(items(), tiles[i]));
    if (configuration.sequence != first.sequence)
      return HeicFault("the tiles of a grid differ in size or depth");
    RETURN_IF_ERROR(budget.Charge(items().At(tiles[i]), configuration));
    ASSIGN_OR_RETURN(const std::vector<uint8_t> data,
                     items().BytesOf(tiles[i], file_, file_.size()));
    ASSIGN_OR_RETURN(
        const std::string remarks,
        DecodeHevcPicture(
            configuration, data, static_cast<int>(i) % grid.columns * first.sequence.shown.width,
            static_cast<int>(i) / grid.columns * first.sequence.shown.height, planes));
    if (remarks.empty()) continue;
    if (!fill_damage_) return HeicFault(absl::StrCat("the data are damaged (", remarks, ")"));
    if (damaged++ == 0) damage = remarks;
  }
  if (damaged > 0)
    warnings.push_back(absl::StrCat(
        "HEIC: the data are damaged (", damage, ")",
        tiles.size() > 1 ? absl::StrCat(" in ", damaged, " of ", tiles.size(), " tiles") : ""));
  return planes;
}

// The colours' property, or the pictures' own statement.
void HeicReader::ReadColours(avifImage& frame, const HevcColours& stated) {
  HevcColours colours = stated;
  std::vector<uint32_t> holders = {items().primary(), layout_->picture};
  const std::vector<uint32_t> tiles = items().ReferencesFrom(BoxType("dimg"), layout_->picture);
  if (!tiles.empty()) holders.push_back(tiles[0]);
  bool has_numbers = false;
  for (const uint32_t holder : holders) {
    for (const HeifItems::Property& property : items().PropertiesOf(holder)) {
      if (property.type != BoxType("colr")) continue;
      BoxReader reader(property.payload);
      const uint32_t type = reader.Take32();
      if (type == BoxType("nclx") && !std::exchange(has_numbers, true)) {
        colours.primaries = static_cast<uint16_t>(reader.Take(2));
        colours.transfer = static_cast<uint16_t>(reader.Take(2));
        colours.matrix = static_cast<uint16_t>(reader.Take(2));
        colours.full_range = (reader.Take(1) & 0x80) != 0;
      }
      if ((type == BoxType("prof") || type == BoxType("rICC")) && metadata.icc_profile.empty())
        metadata.icc_profile =
            Keep(std::string(reader.rest().begin(), reader.rest().end()), "the colour profile");
    }
  }
  frame.colorPrimaries = colours.primaries;
  frame.transferCharacteristics = colours.transfer;
  frame.matrixCoefficients = colours.matrix;
  frame.yuvRange = colours.full_range ? AVIF_RANGE_FULL : AVIF_RANGE_LIMITED;
  AddCicp(frame, metadata);
}

std::string HeicReader::Keep(std::string block, absl::string_view name) {
  if (BytesOf(metadata) + block.size() <= limits_.max_metadata_bytes) return block;
  warnings.push_back(absl::StrCat("HEIC: ", name, " has ", block.size(),
                                  " bytes and is left out; the limit is ",
                                  limits_.max_metadata_bytes));
  return {};
}

// EXIF and XMP of the primary picture.
void HeicReader::ReadBlocks() {
  std::vector<uint32_t> blocks = items().ReferencesTo(BoxType("cdsc"), items().primary());
  if (layout_->picture != items().primary())
    for (const uint32_t id : items().ReferencesTo(BoxType("cdsc"), layout_->picture))
      blocks.push_back(id);
  for (const uint32_t id : blocks) {
    const HeifItem& item = items().At(id);
    const bool is_exif = item.type == BoxType("Exif");
    const bool is_xmp = item.type == BoxType("mime") && item.content_type == kXmpContentType;
    if (!is_exif && !is_xmp) continue;
    const absl::StatusOr<std::vector<uint8_t>> bytes =
        items().BytesOf(id, file_, limits_.max_metadata_bytes);
    if (!bytes.ok()) {
      warnings.push_back(
          absl::StrCat(bytes.status().message(), "; ", is_exif ? "EXIF" : "XMP", " is left out"));
      continue;
    }
    BoxReader reader(*bytes);
    if (is_exif) reader.TakeBytes(reader.Take(4));  // bytes before its TIFF header
    std::string& block = is_exif ? metadata.exif : metadata.xmp;
    if (!block.empty() || !reader.ok()) continue;
    block = Keep(std::string(reader.rest().begin(), reader.rest().end()), is_exif ? "EXIF" : "XMP");
    block = is_exif ? std::string(WithoutExifBegin(block)) : UprightXmp(block);
  }
}

// `alpha` becomes as deep as the colours.
void HeicReader::AddAlpha(avifImage& frame, HevcPlanes& alpha) const {
  HevcPlanes::Plane& plane = alpha.planes[0];
  const auto depth = static_cast<int>(frame.depth);
  if (alpha.bits != depth) {
    const int most = (1 << alpha.bits) - 1, wanted = (1 << depth) - 1;
    const size_t count = plane.samples.size() / (alpha.bits > 8 ? 2 : 1);
    std::vector<uint8_t> samples(count * (depth > 8 ? 2 : 1));
    for (size_t i = 0; i < count; ++i) {
      const int value = alpha.bits > 8 ? reinterpret_cast<const uint16_t*>(plane.samples.data())[i]
                                       : plane.samples[i];
      const int scaled = (value * wanted + most / 2) / most;
      if (depth > 8)
        reinterpret_cast<uint16_t*>(samples.data())[i] = static_cast<uint16_t>(scaled);
      else
        samples[i] = static_cast<uint8_t>(scaled);
    }
    plane = {std::move(samples), static_cast<size_t>(alpha.size.width) * (depth > 8 ? 2 : 1)};
  }
  frame.alphaPlane = plane.samples.data();
  frame.alphaRowBytes = static_cast<uint32_t>(plane.row_bytes);
  const std::vector<uint32_t> multiplied = items().ReferencesTo(BoxType("prem"), *layout_->alpha);
  frame.alphaPremultiplied = multiplied.empty() ? AVIF_FALSE : AVIF_TRUE;
}

absl::Status HeicReader::Decode(MutableImageView image) {
  absl::StatusOr<HevcPlanes> planes = DecodeItem(layout_->picture);
  if (!planes.ok()) {
    if (!absl::IsInvalidArgument(planes.status())) return planes.status();
    return LackRows(image, 0, image.height_px(), std::string(planes.status().message()));
  }
  constexpr avifPixelFormat kFormats[] = {AVIF_PIXEL_FORMAT_YUV400, AVIF_PIXEL_FORMAT_YUV420,
                                          AVIF_PIXEL_FORMAT_YUV422, AVIF_PIXEL_FORMAT_YUV444};
  const std::unique_ptr<avifImage, DestroyHeicFrame> frame(avifImageCreate(
      planes->size.width, planes->size.height, planes->bits, kFormats[planes->chroma]));
  if (frame == nullptr) return absl::ResourceExhaustedError("HEIC: no memory");
  for (int c = 0; c < 3; ++c) {
    frame->yuvPlanes[c] = planes->planes[c].samples.data();
    frame->yuvRowBytes[c] = static_cast<uint32_t>(planes->planes[c].row_bytes);
  }
  ReadColours(*frame, planes->colours);
  std::optional<HevcPlanes> alpha;
  if (layout_->alpha.has_value()) {
    ASSIGN_OR_RETURN(alpha, DecodeItem(*layout_->alpha));
    AddAlpha(*frame, *alpha);
  }
  return ConvertAvifImage("HEIC", *frame, layout_->crop, image);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenHeicDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits,
                                                              const Cancellation* cancellation) {
  uint64_t file_end = 0;
  {
    ASSIGN_OR_RETURN(const std::optional<HeifLayout> layout,
                     ParseHeifLayout("HEIC", source->prefix(), limits));
    if (!layout.has_value())
      return absl::InternalError("HEIC: the header was read from more bytes");
    file_end = layout->file_end;
  }
  auto reader = std::make_unique<HeicReader>(StoredSpec(header), limits, cancellation);
  RETURN_IF_ERROR(reader->Start(*source, file_end));
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
