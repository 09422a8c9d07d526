// Sources: ISO/IEC 14496-12, sections 8.5 to 8.7 (stsd, stsz, stco, co64), 8.11 (meta, iloc, iinf,
// iref, idat), 12.1.3 (the entry of a track's pictures), ISO/IEC 23008-12, section 9.3 (ipco,
// ipma).
#include "engine/image/heif_items.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

// Files have a handful of items; grids have one a tile, 256 x 256 at most.
constexpr uint64_t kMaxItems = 70'000, kMaxExtents = 140'000, kMaxReferences = 140'000,
                   kMaxProperties = 10'000, kMaxPropertiesOfItem = 100;

// The box at the end of a path of boxes, each the first of its name; empty if it is missing.
std::span<const uint8_t> FindBox(std::span<const uint8_t> boxes,
                                 std::initializer_list<uint32_t> path) {
  for (const uint32_t type : path) {
    BoxReader reader(boxes);
    boxes = {};
    while (const auto box = reader.TakeBox()) {
      if (box->type != type) continue;
      boxes = box->payload;
      break;
    }
  }
  return boxes;
}

// Whether a track shows pictures itself, and is no alpha of another.
bool ShowsPictures(std::span<const uint8_t> track) {
  BoxReader handler(FindBox(track, {BoxType("mdia"), BoxType("hdlr")}));
  handler.Take(8);
  const uint32_t type = handler.Take32();
  return type == BoxType("pict") || type == BoxType("vide");
}

}  // namespace

absl::Status HeifItems::Fault(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ": ", ToAbsl(what)));
}

absl::StatusOr<HeifItems> HeifItems::Parse(const char* name, std::span<const uint8_t> meta) {
  HeifItems items(name);
  BoxReader boxes(meta);
  boxes.TakeVersion();
  while (const auto box = boxes.TakeBox()) {
    BoxReader reader(box->payload);
    switch (box->type) {
      case BoxType("pitm"):
        items.primary_ = static_cast<uint32_t>(reader.Take(reader.TakeVersion() == 0 ? 2 : 4));
        break;
      case BoxType("iinf"):
        RETURN_IF_ERROR(items.ParseInformation(reader));
        break;
      case BoxType("iloc"):
        RETURN_IF_ERROR(items.ParseLocations(reader));
        break;
      case BoxType("iref"):
        RETURN_IF_ERROR(items.ParseReferences(reader));
        break;
      case BoxType("iprp"):
        RETURN_IF_ERROR(items.ParseProperties(reader));
        break;
      case BoxType("idat"):
        items.data_ = box->payload;
        break;
      case BoxType(
          "hdlr"):  // that it holds pictures, where data lie, which pictures belong together
      case BoxType("dinf"):
      case BoxType("grpl"):
      case BoxType("free"):
      case BoxType("skip"):
        break;
      default:
        items.other_boxes_.Add(BoxName(box->type));
    }
  }
  return items;
}

absl::StatusOr<HeifItems> HeifItems::OfTrack(const char* name, std::span<const uint8_t> moov) {
  HeifItems items(name);
  BoxReader boxes(moov);
  while (const auto box = boxes.TakeBox()) {
    if (box->type != BoxType("trak") || !ShowsPictures(box->payload)) continue;
    RETURN_IF_ERROR(items.ParseTrack(
        BoxReader(FindBox(box->payload, {BoxType("mdia"), BoxType("minf"), BoxType("stbl")}))));
    return items;
  }
  return items.Fault("it has neither a picture nor a track of pictures");
}

absl::Status HeifItems::ParseTrack(BoxReader samples) {
  HeifItem& picture = items_[primary_ = 1];
  const std::span<const uint8_t> table = samples.rest();
  BoxReader descriptions(FindBox(table, {BoxType("stsd")}));
  descriptions.Take(8);
  const auto entry = descriptions.TakeBox();
  if (!entry.has_value()) return Fault("its track describes no pictures");
  picture.type = entry->type;
  BoxReader fields(entry->payload);
  fields.TakeBytes(24);
  const auto width = static_cast<int>(fields.Take(2)), height = static_cast<int>(fields.Take(2));
  picture.size = {width, height};
  fields.TakeBytes(50);
  while (const auto property = fields.TakeBox()) {
    properties_.push_back(*property);
    if (properties_.size() > kMaxPropertiesOfItem) return Fault("it has too many properties");
    picture.properties.push_back(static_cast<uint16_t>(properties_.size()));
  }
  BoxReader sizes(FindBox(table, {BoxType("stsz")}));
  sizes.Take(4);
  const uint64_t common = sizes.Take(4);
  sizes.Take(4);
  const uint64_t length = common > 0 ? common : sizes.Take(4);
  const std::span<const uint8_t> far = FindBox(table, {BoxType("co64")});
  BoxReader places(far.empty() ? FindBox(table, {BoxType("stco")}) : far);
  places.Take(8);
  const uint64_t offset = places.Take(far.empty() ? 4 : 8);
  constexpr uint64_t kFar = uint64_t{1} << 60;
  if (!sizes.ok() || !places.ok() || length == 0 || offset > kFar)
    return Fault("the place of its track's first picture is damaged");
  picture.extents = {{offset, length}};
  file_end_ = offset + length;
  return absl::OkStatus();
}

absl::StatusOr<HeifItem*> HeifItems::Add(uint64_t id) {
  HeifItem* const item = &items_[static_cast<uint32_t>(id)];
  if (items_.size() > kMaxItems)
    return Fault(absl::StrCat("it has more than ", kMaxItems, " items"));
  return item;
}

absl::Status HeifItems::ParseInformation(BoxReader reader) {
  reader.Take(reader.TakeVersion() == 0 ? 2 : 4);  // how many follow
  while (const auto box = reader.TakeBox()) {
    if (box->type != BoxType("infe")) continue;
    BoxReader entry(box->payload);
    const uint32_t full = entry.Take32(), version = full >> 24;
    if (version < 2) continue;  // without types
    ASSIGN_OR_RETURN(HeifItem* const item, Add(entry.Take(version == 2 ? 2 : 4)));
    item->is_hidden = (full & 1) != 0;
    item->is_protected = entry.Take(2) != 0;
    item->type = entry.Take32();
    entry.TakeText();  // its name
    if (item->type == BoxType("mime")) item->content_type = entry.TakeText();
  }
  return absl::OkStatus();
}

absl::Status HeifItems::ParseLocations(BoxReader reader) {
  const uint32_t version = reader.TakeVersion();
  const auto sizes = static_cast<uint32_t>(reader.Take(2));
  const int offset_bytes = sizes >> 12, length_bytes = sizes >> 8 & 15,
            base_bytes = sizes >> 4 & 15, index_bytes = version == 0 ? 0 : sizes & 15;
  const uint64_t count = reader.Take(version < 2 ? 2 : 4);
  if (count > kMaxItems || std::max({offset_bytes, length_bytes, base_bytes, index_bytes}) > 8)
    return Fault("the places of its items are damaged");
  uint64_t extents_left = kMaxExtents;
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    ASSIGN_OR_RETURN(HeifItem* const item, Add(reader.Take(version < 2 ? 2 : 4)));
    const uint64_t method = version == 0 ? 0 : reader.Take(2) & 15;
    item->in_meta = method == 1;
    item->is_elsewhere = reader.Take(2) != 0 || method > 1;
    const uint64_t base = reader.Take(base_bytes), extents = reader.Take(2);
    if (extents > extents_left) return Fault("the places of its items are damaged");
    extents_left -= extents;
    for (uint64_t n = 0; n < extents && reader.ok(); ++n) {
      reader.Take(index_bytes);
      const uint64_t offset = reader.Take(offset_bytes), length = reader.Take(length_bytes);
      constexpr uint64_t kFar = uint64_t{1} << 60;
      if (base > kFar || offset > kFar || length > kFar)
        return Fault("the places of its items are damaged");
      item->extents.push_back({base + offset, length});
      if (method != 0) continue;
      if (length == 0) return Fault("the end of an item is not stated");
      file_end_ = std::max(file_end_, base + offset + length);
    }
  }
  return reader.ok() ? absl::OkStatus() : Fault("the places of its items are cut short");
}

absl::Status HeifItems::ParseReferences(BoxReader reader) {
  const int id_bytes = reader.TakeVersion() == 0 ? 2 : 4;
  while (const auto box = reader.TakeBox()) {
    BoxReader ids(box->payload);
    const auto from = static_cast<uint32_t>(ids.Take(id_bytes));
    const uint64_t count = ids.Take(2);
    for (uint64_t i = 0; i < count && !ids.at_end(); ++i) {
      references_.push_back({box->type, from, static_cast<uint32_t>(ids.Take(id_bytes))});
      if (references_.size() > kMaxReferences)
        return Fault(absl::StrCat("it has more than ", kMaxReferences, " references"));
    }
  }
  return absl::OkStatus();
}

absl::Status HeifItems::ParseProperties(BoxReader reader) {
  while (const auto box = reader.TakeBox()) {
    BoxReader inner(box->payload);
    if (box->type == BoxType("ipma")) RETURN_IF_ERROR(ParseAssociations(inner));
    if (box->type != BoxType("ipco")) continue;
    while (const auto property = inner.TakeBox()) {
      properties_.push_back(*property);
      if (properties_.size() > kMaxProperties) return Fault("it has too many properties");
    }
  }
  return absl::OkStatus();
}

absl::Status HeifItems::ParseAssociations(BoxReader reader) {
  const uint32_t full = reader.Take32();
  const int id_bytes = full >> 24 == 0 ? 2 : 4, index_bytes = (full & 1) != 0 ? 2 : 1;
  const uint64_t count = reader.Take(4);
  for (uint64_t i = 0; i < count && !reader.at_end(); ++i) {
    ASSIGN_OR_RETURN(HeifItem* const item, Add(reader.Take(id_bytes)));
    for (uint64_t left = reader.Take(1); left > 0 && reader.ok(); --left) {
      const uint64_t index = reader.Take(index_bytes) & (index_bytes == 1 ? 0x7F : 0x7FFF);
      if (index > 0 && item->properties.size() < kMaxPropertiesOfItem)
        item->properties.push_back(static_cast<uint16_t>(index));
    }
  }
  return absl::OkStatus();
}

size_t HeifItems::memory_bytes() const {
  constexpr size_t kNodeBytes = 64;  // of a map or a set, and of an allocation
  size_t bytes = items_.size() * (kNodeBytes + sizeof(HeifItem)) +
                 properties_.capacity() * sizeof(Property) +
                 references_.capacity() * (kNodeBytes + 2 * sizeof(Reference));
  for (const auto& [id, item] : items_)
    bytes += item.extents.capacity() * sizeof(HeifItem::Extent) +
             item.properties.capacity() * sizeof(uint16_t);
  return bytes;
}

const HeifItem& HeifItems::At(uint32_t id) const {
  static const HeifItem kNone;
  const auto found = items_.find(id);
  return found == items_.end() ? kNone : found->second;
}

std::vector<HeifItems::Property> HeifItems::PropertiesOf(uint32_t id) const {
  std::vector<Property> found;
  for (const uint16_t index : At(id).properties)
    if (index <= properties_.size()) found.push_back(properties_[index - 1]);
  return found;
}

std::vector<uint32_t> HeifItems::ReferencesFrom(uint32_t type, uint32_t from) const {
  std::vector<uint32_t> found;
  for (const Reference& reference : references_)
    if (reference.type == type && reference.from == from) found.push_back(reference.to);
  return found;
}

std::vector<uint32_t> HeifItems::ReferencesTo(uint32_t type, uint32_t to) const {
  std::vector<uint32_t> found;
  for (const Reference& reference : references_)
    if (reference.type == type && reference.to == to) found.push_back(reference.from);
  return found;
}

absl::StatusOr<std::vector<uint8_t>> HeifItems::BytesOf(uint32_t id, std::span<const uint8_t> file,
                                                        uint64_t max_bytes) const {
  const HeifItem& item = At(id);
  if (item.is_elsewhere || item.is_protected)
    return Fault(absl::StrCat("item ", id, " is ",
                              item.is_protected ? "protected" : "in another file or item"));
  const std::span<const uint8_t> store = item.in_meta ? data_ : file;
  std::vector<uint8_t> bytes;
  for (const HeifItem::Extent& extent : item.extents) {
    if (extent.offset > store.size() || extent.length > store.size() - extent.offset ||
        extent.length > max_bytes - bytes.size())
      return Fault(absl::StrCat("the data of item ", id, " are cut short or longer than ",
                                max_bytes, " bytes"));
    const auto begin = store.begin() + static_cast<ptrdiff_t>(extent.offset);
    bytes.insert(bytes.end(), begin, begin + static_cast<ptrdiff_t>(extent.length));
  }
  return bytes;
}

}  // namespace upscaled
