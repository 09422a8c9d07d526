// Sources: ISO/IEC 14496-12 (boxes, meta, iloc, iinf, iref), ISO/IEC 23008-12 (ipma, ispe, pixi,
// irot, imir, auxC), AV1 Codec ISO Media File Format Binding (av1C).
#include "engine/image/heif_header.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/endian.h"

namespace upscaled {
namespace {

constexpr uint32_t BoxType(const char (&name)[5]) {
  return uint32_t(uint8_t(name[0])) << 24 | uint8_t(name[1]) << 16 | uint8_t(name[2]) << 8 |
         uint8_t(name[3]);
}

// Numbers of a box from its beginning on; those beyond its end are 0, and make it not ok.
class BoxReader {
 public:
  explicit BoxReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  uint64_t Take(int bytes) {
    uint64_t value = 0;
    ok_ = ok_ && rest_.size() >= static_cast<size_t>(bytes);
    if (!ok_) return 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | rest_[i];
    rest_ = rest_.subspan(bytes);
    return value;
  }
  // Version and flags of a full box.
  uint32_t TakeVersion() { return static_cast<uint32_t>(Take(4)) >> 24; }

  bool ok() const { return ok_; }
  bool at_end() const { return !ok_ || rest_.empty(); }
  std::span<const uint8_t> rest() const { return rest_; }

  struct Box {
    uint32_t type;
    std::span<const uint8_t> payload;
  };
  // nullopt: no whole box is left.
  std::optional<Box> TakeBox() {
    if (rest_.size() < 8) return std::nullopt;
    uint64_t size = LoadBe32(rest_.data()), header = 8;
    const uint32_t type = LoadBe32(&rest_[4]);
    if (size == 1 && rest_.size() >= 16) {
      size = uint64_t{LoadBe32(&rest_[8])} << 32 | LoadBe32(&rest_[12]);
      header = 16;
    }
    if (size == 0) size = rest_.size();
    if (size < header || size > rest_.size()) return std::nullopt;
    const Box box{type, rest_.subspan(header, size - header)};
    rest_ = rest_.subspan(size);
    return box;
  }

 private:
  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

// Files have a handful of items; grids have one a tile.
constexpr uint64_t kMaxItems = 10'000, kMaxExtents = 10'000;
// One is alpha, others are depth or gain maps.
constexpr size_t kMaxAuxiliaries = 16, kMaxPropertiesOfItem = 100;

// One property of "ipco", whole.
using Property = BoxReader::Box;

class MetaParser {
 public:
  MetaParser(const char* name, const DecodeLimits& limits) : name_(name), limits_(limits) {}

  absl::StatusOr<HeifLayout> Parse(std::span<const uint8_t> meta) {
    BoxReader boxes(meta);
    boxes.TakeVersion();
    BoxReader references({});
    while (const auto box = boxes.TakeBox()) {
      BoxReader reader(box->payload);
      if (box->type == BoxType("pitm"))
        primary_ = reader.TakeVersion() == 0 ? reader.Take(2) : reader.Take(4);
      if (box->type == BoxType("iloc")) RETURN_IF_ERROR(ParseLocations(reader));
      if (box->type == BoxType("iref")) references = reader;
      if (box->type == BoxType("iprp")) RETURN_IF_ERROR(ParseProperties(reader));
    }
    ParseReferences(references);
    for (const Property& property : PropertiesOf(primary_)) RETURN_IF_ERROR(Apply(property));
    if (layout_.size == Size{}) return Fault("the primary item states no size");
    if (!has_depth_) ApplyDepthOfTile();
    layout_.has_alpha = std::ranges::any_of(auxiliaries_, [this](uint64_t item) {
      return std::ranges::any_of(PropertiesOf(item), IsAlpha);
    });
    return layout_;
  }

 private:
  absl::Status Fault(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what));
  }

  absl::Status ParseLocations(BoxReader reader) {
    const uint32_t version = reader.TakeVersion();
    const auto sizes = static_cast<uint32_t>(reader.Take(2));
    const int offset_bytes = sizes >> 12, length_bytes = sizes >> 8 & 15,
              base_bytes = sizes >> 4 & 15, index_bytes = version == 0 ? 0 : sizes & 15;
    const uint64_t items = reader.Take(version < 2 ? 2 : 4);
    if (items > kMaxItems || std::max({offset_bytes, length_bytes, base_bytes, index_bytes}) > 8)
      return Fault("the places of its items are damaged");
    for (uint64_t i = 0; i < items && reader.ok(); ++i) {
      reader.Take(version < 2 ? 2 : 4);
      const uint64_t method = version == 0 ? 0 : reader.Take(2) & 15;
      reader.Take(2);
      const uint64_t base = reader.Take(base_bytes), extents = reader.Take(2);
      if (extents > kMaxExtents) return Fault("the places of its items are damaged");
      for (uint64_t n = 0; n < extents && reader.ok(); ++n) {
        reader.Take(index_bytes);
        const uint64_t offset = reader.Take(offset_bytes), length = reader.Take(length_bytes);
        if (method != 0) continue;  // within "meta"
        constexpr uint64_t kFar = uint64_t{1} << 60;
        if (length == 0 || base > kFar || offset > kFar || length > kFar)
          return Fault("the end of an item is not stated");
        layout_.file_end = std::max(layout_.file_end, base + offset + length);
      }
    }
    return reader.ok() ? absl::OkStatus() : Fault("the places of its items are cut short");
  }

  void ParseReferences(BoxReader reader) {
    const int id_bytes = reader.TakeVersion() == 0 ? 2 : 4;
    while (const auto box = reader.TakeBox()) {
      BoxReader ids(box->payload);
      const uint64_t from = ids.Take(id_bytes), count = ids.Take(2);
      for (uint64_t i = 0; i < count && ids.ok(); ++i) {
        const uint64_t to = ids.Take(id_bytes);
        if (box->type == BoxType("auxl") && to == primary_ && auxiliaries_.size() < kMaxAuxiliaries)
          auxiliaries_.push_back(from);
        if (box->type == BoxType("dimg") && from == primary_ && tile_ == 0) tile_ = to;
      }
    }
  }

  absl::Status ParseProperties(BoxReader reader) {
    while (const auto box = reader.TakeBox()) {
      BoxReader inner(box->payload);
      if (box->type == BoxType("ipco"))
        while (const auto property = inner.TakeBox()) properties_.push_back(*property);
      if (box->type == BoxType("ipma")) associations_.push_back(box->payload);
      if (properties_.size() > kMaxItems || associations_.size() > kMaxItems)
        return Fault("it has too many properties");
    }
    return absl::OkStatus();
  }

  // In the order that they are applied in.
  std::vector<Property> PropertiesOf(uint64_t item) const {
    std::vector<Property> found;
    for (const std::span<const uint8_t> payload : associations_) {
      BoxReader reader(payload);
      const auto full = static_cast<uint32_t>(reader.Take(4));
      const int id_bytes = full >> 24 == 0 ? 2 : 4, index_bytes = (full & 1) != 0 ? 2 : 1;
      const uint64_t items = reader.Take(4);
      for (uint64_t i = 0; i < items && !reader.at_end(); ++i) {
        const bool wanted = reader.Take(id_bytes) == item;
        for (uint64_t count = reader.Take(1); count > 0 && reader.ok(); --count) {
          const uint64_t index = reader.Take(index_bytes) & (index_bytes == 1 ? 0x7F : 0x7FFF);
          if (wanted && index > 0 && index <= properties_.size() &&
              found.size() < kMaxPropertiesOfItem)
            found.push_back(properties_[index - 1]);
        }
      }
    }
    return found;
  }

  absl::Status Apply(const Property& property) {
    BoxReader reader(property.payload);
    switch (property.type) {
      case BoxType("ispe"): {
        reader.TakeVersion();
        const uint64_t width = reader.Take(4), height = reader.Take(4);
        RETURN_IF_ERROR(CheckImageSize(name_, width, height, limits_));
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
        layout_.is_cropped = true;
        break;
      case BoxType("irot"):
        Turn(static_cast<int>(reader.Take(1) & 3));
        break;
      case BoxType("imir"):
        Mirror((reader.Take(1) & 1) != 0);
        break;
      default:
        break;
    }
    return absl::OkStatus();
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
      for (int i = 0; i < 16; ++i) reader.Take(1);
      layout_.is_gray = (reader.Take(1) & 3) == 0;
      layout_.bits = 8 + static_cast<int>(reader.Take(1) & 7);
    }
  }

  // A grid is as deep as its tiles.
  void ApplyDepthOfTile() {
    for (const Property& property : PropertiesOf(tile_))
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

  // The orientation so far, and then so many quarter turns against the clock.
  void Turn(int quarters) { SetOrientation(quarters_ + (is_mirrored_ ? -quarters : quarters)); }
  // ... and then left and right, or top and bottom, exchanged: which is left and right, turned by a
  // half.
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

  static bool IsAlpha(const Property& property) {
    constexpr std::string_view kNames[] = {"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha",
                                           "urn:mpeg:hevc:2015:auxid:1"};
    if (property.type != BoxType("auxC") || property.payload.size() < 4) return false;
    const std::string_view name(reinterpret_cast<const char*>(property.payload.data()) + 4,
                                property.payload.size() - 4);
    return std::ranges::any_of(kNames, [name](std::string_view known) {
      return name.substr(0, name.find('\0')) == known;
    });
  }

  const char* const name_;
  const DecodeLimits& limits_;
  HeifLayout layout_;
  uint64_t primary_ = 0, tile_ = 0;
  std::vector<uint64_t> auxiliaries_;
  std::vector<Property> properties_;
  std::vector<std::span<const uint8_t>> associations_;
  bool has_depth_ = false;
  // The image is turned so many quarters against the clock, and then left and right exchanged.
  int quarters_ = 0;
  bool is_mirrored_ = false;
};

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
    if (type == BoxType("meta")) {
      ASSIGN_OR_RETURN(
          HeifLayout layout,
          MetaParser(name, limits).Parse(prefix.subspan(position + header, size - header)));
      layout.meta_end = end;
      layout.file_end = std::max(layout.file_end, end);
      return layout;
    }
    position = end;
  }
  return std::nullopt;
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
