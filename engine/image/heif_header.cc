// Sources: ISO/IEC 14496-12, section 12.1.4 (clap), ISO/IEC 23008-12 (ispe, pixi, irot, imir,
// auxC), AV1 Codec ISO Media File Format Binding (av1C).
#include "engine/image/heif_header.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/endian.h"
#include "engine/image/orientation.h"

namespace upscaled {
namespace {

using Property = HeifItems::Property;

// More than the pixels take without compression is no image's.
constexpr uint64_t kMaxFileBytesPerPixel = 16;

// `part` of an image of `size`, given after it was turned `quarters` against the clock and then,
// if `mirrored`, left and right exchanged; returns it as it was before.
Rect TurnBack(Rect part, Size size, int quarters, bool mirrored) {
  Size turned = quarters % 2 == 0 ? size : Size{size.height, size.width};
  if (mirrored) part.x = turned.width - part.right();
  for (; quarters > 0; --quarters) {
    // A turn against the clock took (x, y) to (y, width - x).
    part = {turned.height - part.bottom(), part.x, part.height, part.width};
    std::swap(turned.width, turned.height);
  }
  return part;
}

// As many auxiliary items are looked at for the alpha.
constexpr int kMaxAuxiliaries = 16;

class LayoutParser {
 public:
  LayoutParser(const char* name, const DecodeLimits& limits, HeifItems items)
      : name_(name), limits_(limits), layout_(std::move(items)) {}

  absl::StatusOr<HeifLayout> Parse() && {
    const HeifItems& items = layout_.items;
    // An item may be another one, turned or cropped once more.
    std::vector<uint32_t> turned;
    layout_.picture = items.primary();
    while (items.At(layout_.picture).type == BoxType("iden")) {
      const std::vector<uint32_t> sources = items.ReferencesFrom(BoxType("dimg"), layout_.picture);
      constexpr size_t kMaxDepth = 8;
      if (sources.size() != 1 || turned.size() == kMaxDepth)
        return Fault("an item that is derived of another (iden) is damaged");
      turned.push_back(std::exchange(layout_.picture, sources[0]));
    }
    if (const Size size = items.At(layout_.picture).size; size != Size{}) {
      RETURN_IF_ERROR(CheckImageSize(name_, size.width, size.height, limits_));
      layout_.size = size;
    }
    for (const Property& property : items.PropertiesOf(layout_.picture))
      RETURN_IF_ERROR(Apply(property));
    for (auto item = turned.rbegin(); item != turned.rend(); ++item)
      for (const Property& property : items.PropertiesOf(*item))
        if (property.type == BoxType("clap") || property.type == BoxType("irot") ||
            property.type == BoxType("imir"))
          RETURN_IF_ERROR(Apply(property));
    if (layout_.size == Size{}) return Fault("the primary item states no size");
    if (!has_depth_) ApplyDepthOfTile();
    FindOthers();
    layout_.file_end = items.file_end();
    return std::move(layout_);
  }

 private:
  absl::Status Fault(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what));
  }

  absl::Status Apply(const Property& property) {
    BoxReader reader(property.payload);
    switch (property.type) {
      case BoxType("ispe"): {
        reader.TakeVersion();
        const uint64_t width = reader.Take(4), height = reader.Take(4);
        RETURN_IF_ERROR(CheckImageSize(name_, width, height, limits_));
        // The part to show lies within the size known then.
        if (layout_.crop.has_value())
          return Fault("its size (ispe) follows the part to show (clap)");
        layout_.size = {static_cast<int>(width), static_cast<int>(height)};
        break;
      }
      case BoxType("pixi"):
      case BoxType("av1C"):
      case BoxType("hvcC"):
        ApplyDepth(property);
        break;
      case BoxType("colr"):
        ApplyColours(reader);
        break;
      case BoxType("clap"):
        return Crop(reader);
      case BoxType("irot"):
        Turn(static_cast<int>(reader.Take(1) & 3));
        break;
      case BoxType("imir"):
        Mirror((reader.Take(1) & 1) != 0);
        break;
      default:
        RecordOther(property);
    }
    return absl::OkStatus();
  }

  void RecordOther(const Property& property) {
    // Layers, which the decoders know, and facts about a track.
    constexpr uint32_t kSilent[] = {BoxType("a1lx"), BoxType("a1op"), BoxType("lsel"),
                                    BoxType("auxC"), BoxType("btrt"), BoxType("ccst")};
    BoxReader reader(property.payload);
    const bool is_square = property.type == BoxType("pasp") && reader.Take32() == reader.Take32();
    if (!is_square && std::ranges::count(kSilent, property.type) == 0)
      layout_.other_properties.Add(BoxName(property.type));
  }

  void ApplyDepth(const Property& property) {
    BoxReader reader(property.payload);
    has_depth_ = true;
    if (property.type == BoxType("pixi")) {
      reader.TakeVersion();
      layout_.is_gray = reader.Take(1) == 1;
      layout_.bits = static_cast<int>(reader.Take(1));
    } else if (property.type == BoxType("av1C")) {
      const auto flags = static_cast<uint32_t>(reader.Take(3)) & 0xFF;
      layout_.bits = (flags & 0x40) == 0 ? 8 : (flags & 0x20) == 0 ? 10 : 12;
      layout_.is_gray = (flags & 0x10) != 0;
    } else {  // HEVC's record, ISO/IEC 14496-15, section 8.3.3.1.2
      reader.TakeBytes(16);
      layout_.is_gray = (reader.Take(1) & 3) == 0;
      layout_.bits = 8 + static_cast<int>(reader.Take(1) & 7);
    }
  }

  // A grid is as deep as its tiles.
  void ApplyDepthOfTile() {
    const HeifItems& items = layout_.items;
    const std::vector<uint32_t> tiles = items.ReferencesFrom(BoxType("dimg"), layout_.picture);
    if (tiles.empty()) return;
    for (const Property& property : items.PropertiesOf(tiles[0]))
      if (property.type == BoxType("av1C") || property.type == BoxType("hvcC"))
        ApplyDepth(property);
  }

  void ApplyColours(BoxReader reader) {
    const auto type = static_cast<uint32_t>(reader.Take(4));
    if (type == BoxType("prof") || type == BoxType("rICC")) {
      layout_.profile_bytes = reader.rest().size();
    } else if (type == BoxType("nclx")) {
      reader.Take(2);
      layout_.transfer = static_cast<uint32_t>(reader.Take(2));
    }
  }

  // The part to show: its size, and how far its middle lies from the image's, as fractions.
  absl::Status Crop(BoxReader reader) {
    const auto take_fraction = [&reader](bool is_signed) {
      const uint32_t numerator = reader.Take32(), denominator = reader.Take32();
      return (is_signed ? static_cast<int32_t>(numerator) : static_cast<double>(numerator)) /
             static_cast<double>(denominator);
    };
    const double width = take_fraction(false), height = take_fraction(false),
                 right = take_fraction(true), down = take_fraction(true);
    const bool swaps = SwapsSides(layout_.orientation);
    const Rect whole = {0, 0, swaps ? layout_.size.height : layout_.size.width,
                        swaps ? layout_.size.width : layout_.size.height};
    const double x = std::floor((whole.width - width) / 2 + right),
                 y = std::floor((whole.height - height) / 2 + down);
    if (!reader.ok() || layout_.crop.has_value() ||
        !(width >= 1 && height >= 1 && x >= 0 && y >= 0 && x + std::floor(width) <= whole.width &&
          y + std::floor(height) <= whole.height))
      return Fault(absl::StrCat("the part to show (clap), ", width, " x ", height, " px at (", x,
                                ", ", y, "), is not within the image of ", whole.width, " x ",
                                whole.height, " px"));
    layout_.crop = TurnBack({static_cast<int>(x), static_cast<int>(y), static_cast<int>(width),
                             static_cast<int>(height)},
                            layout_.size, quarters_, is_mirrored_);
    return absl::OkStatus();
  }

  // The orientation so far, and then this many quarter turns against the clock.
  void Turn(int quarters) { SetOrientation(quarters_ + (is_mirrored_ ? -quarters : quarters)); }
  // ... and then left and right, or top and bottom, exchanged: the exchange of left and right,
  // turned by a half.
  void Mirror(bool left_right) {
    is_mirrored_ = !is_mirrored_;
    SetOrientation(quarters_ + (left_right ? 0 : 2));
  }
  void SetOrientation(int quarters) {
    using enum Orientation;
    constexpr Orientation kTurned[] = {kIdentity, kRotate270, kRotate180, kRotate90};
    constexpr Orientation kTurnedThenMirrored[] = {kFlipX, kTransverse, kFlipY, kTranspose};
    quarters_ = quarters & 3;
    layout_.orientation = (is_mirrored_ ? kTurnedThenMirrored : kTurned)[quarters_];
  }

  // Alpha, and the left out pictures.
  void FindOthers() {
    const HeifItems& items = layout_.items;
    std::set<uint32_t> parts = {items.primary()};  // of pictures, or beside them
    for (const HeifItems::Reference& reference : items.references()) {
      if (reference.type == BoxType("dimg")) parts.insert(reference.to);
      if (reference.type == BoxType("thmb") || reference.type == BoxType("auxl"))
        parts.insert(reference.from);
      if (reference.type != BoxType("auxl") ||
          (reference.to != items.primary() && reference.to != layout_.picture))
        continue;
      if (!layout_.alpha.has_value() && layout_.other_auxiliaries < kMaxAuxiliaries &&
          std::ranges::any_of(items.PropertiesOf(reference.from), IsAlpha))
        layout_.alpha = reference.from;
      else
        ++layout_.other_auxiliaries;
    }
    constexpr uint32_t kPictures[] = {BoxType("hvc1"), BoxType("hev1"), BoxType("av01"),
                                      BoxType("jpeg"), BoxType("avc1"), BoxType("grid"),
                                      BoxType("iden"), BoxType("iovl")};
    for (const auto& [id, item] : items.all()) {
      const bool is_picture = std::ranges::find(kPictures, item.type) != std::end(kPictures);
      if (is_picture && !item.is_hidden && !parts.contains(id)) ++layout_.other_pictures;
      if (!is_picture && item.type != 0 && !IsBlock(id, item))
        layout_.other_items.Add(item.type == BoxType("mime") ? item.content_type
                                                             : BoxName(item.type));
    }
  }

  // Whether an item is EXIF or XMP of a picture: the first of its kind, if it is the primary's.
  bool IsBlock(uint32_t id, const HeifItem& item) {
    const bool is_exif = item.type == BoxType("Exif");
    if (!is_exif && (item.type != BoxType("mime") || item.content_type != kXmpContentType))
      return false;
    const std::vector<uint32_t> pictures = layout_.items.ReferencesFrom(BoxType("cdsc"), id);
    if (std::ranges::count(pictures, layout_.items.primary()) == 0) return !pictures.empty();
    return !std::exchange(is_exif ? has_exif_ : has_xmp_, true);
  }

  static bool IsAlpha(const Property& property) {
    constexpr std::string_view kNames[] = {"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha",
                                           "urn:mpeg:hevc:2015:auxid:1"};
    if (property.type != BoxType("auxC")) return false;
    BoxReader reader(property.payload);
    reader.TakeVersion();
    return std::ranges::find(kNames, reader.TakeText()) != std::end(kNames);
  }

  const char* const name_;
  const DecodeLimits& limits_;
  HeifLayout layout_;
  bool has_depth_ = false, has_exif_ = false, has_xmp_ = false;
  // Quarters that the image is turned against the clock, before left and right are exchanged.
  int quarters_ = 0;
  bool is_mirrored_ = false;
};

// Whether the file claims a picture, and not only a track of them.
bool HasPicture(std::span<const uint8_t> prefix) {
  constexpr std::string_view kBrands[] = {"mif1", "heic", "heix", "heim", "heis", "avif"};
  return std::ranges::any_of(kBrands,
                             [prefix](std::string_view brand) { return HasBrand(prefix, brand); });
}

}  // namespace

absl::StatusOr<std::optional<HeifLayout>> ParseHeifLayout(const char* name,
                                                          std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits) {
  uint64_t position = 0;
  while (prefix.size() >= position + 16) {
    uint64_t size = LoadBe32(&prefix[position]), header = 8;
    const uint32_t type = LoadBe32(&prefix[position + 4]);
    if (size == 1) {
      size = uint64_t{LoadBe32(&prefix[position + 8])} << 32 | LoadBe32(&prefix[position + 12]);
      header = 16;
    }
    if (size < header || size > uint64_t{1} << 60)
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": a box of ", size, " bytes stands at byte ", position));
    const uint64_t end = position + size;
    RETURN_IF_ERROR(CheckMetadataBytes(name, end, limits));
    if (prefix.size() < end) return std::nullopt;
    const bool is_track = type == BoxType("moov") && !HasPicture(prefix);
    if (type == BoxType("meta") || is_track) {
      const std::span<const uint8_t> payload = prefix.subspan(position + header, size - header);
      ASSIGN_OR_RETURN(HeifItems items, is_track ? HeifItems::OfTrack(name, payload)
                                                 : HeifItems::Parse(name, payload));
      ASSIGN_OR_RETURN(HeifLayout layout, LayoutParser(name, limits, std::move(items)).Parse());
      layout.is_track = is_track;
      layout.meta_end = end;
      layout.file_end = std::max(layout.file_end, end);
      return layout;
    }
    position = end;
  }
  return std::nullopt;
}

absl::StatusOr<ImageHeader> MakeHeifHeader(const char* name, const HeifLayout& layout,
                                           size_t fixed_bytes, size_t bytes_per_pixel,
                                           const DecodeLimits& limits) {
  const auto pixels = static_cast<uint64_t>(layout.size.Area());
  const uint64_t max_file_bytes = kMaxFileBytesPerPixel * pixels + limits.max_metadata_bytes;
  if (layout.file_end > max_file_bytes)
    return absl::InvalidArgumentError(absl::StrCat(name, ": the data end at byte ", layout.file_end,
                                                   "; the limit for ", pixels, " pixels is ",
                                                   max_file_bytes));
  ImageHeader header;
  const Size shown = layout.shown_size();
  header.spec = {shown.width, shown.height,
                 (layout.is_gray ? 1 : 3) + (layout.alpha.has_value() ? 1 : 0),
                 layout.bits > 8 ? SampleType::kU16 : SampleType::kU8};
  header.orientation = layout.orientation;
  if (layout.transfer == 16) header.hdr = "PQ";
  if (layout.transfer == 18) header.hdr = "HLG";
  if (layout.other_pictures > 0)
    header.warnings.push_back(absl::StrCat(name, ": it holds ", layout.other_pictures + 1,
                                           " pictures: the primary one is computed, ",
                                           layout.other_pictures, " left out"));
  if (layout.other_auxiliaries > 0)
    header.warnings.push_back(absl::StrCat(name, ": ", layout.other_auxiliaries,
                                           " auxiliary pictures (such as depth or gain maps) are "
                                           "left out"));
  const auto warn = [&](absl::string_view what, const LeftOut& names) {
    if (!names.empty())
      header.warnings.push_back(absl::StrCat(name, ": ", what, " are left out: ", names.Names()));
  };
  warn("items", layout.other_items);
  warn("properties of the picture", layout.other_properties);
  warn("boxes", layout.items.other_boxes());
  header.prefix_bytes = HeaderBufferBytes(layout.meta_end);
  header.metadata_bytes =
      layout.profile_bytes + std::min<uint64_t>(layout.file_end, limits.max_metadata_bytes);
  ImageSpec stored = header.spec;
  stored.width_px = layout.size.width;
  stored.height_px = layout.size.height;
  header.decoder_bytes = header.prefix_bytes + 2 * layout.file_end + 2 * header.metadata_bytes +
                         layout.items.memory_bytes() + fixed_bytes + bytes_per_pixel * pixels +
                         ImageBytes(stored);
  if (layout.crop.has_value()) header.decoder_bytes += ImageBytes(stored);
  if (header.orientation != Orientation::kIdentity)
    header.decoder_bytes += UprightBytes(header.spec);
  if (SwapsSides(header.orientation)) std::swap(header.spec.width_px, header.spec.height_px);
  return header;
}

bool HasBrand(std::span<const uint8_t> prefix, std::string_view brand) {
  BoxReader reader(prefix);
  const auto ftyp = reader.TakeBox();
  if (!ftyp.has_value()) return false;
  for (size_t i = 0; i + 4 <= ftyp->payload.size(); i += 4) {
    if (i != 4 && std::equal(brand.begin(), brand.end(), ftyp->payload.begin() + i)) return true;
  }
  return false;
}

}  // namespace upscaled
