// The items of a HEIF file: its pictures, their tiles, and their metadata. Private to engine/image.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/heif_boxes.h"
#include "engine/image/left_out.h"

namespace upscaled {

constexpr std::string_view kXmpContentType = "application/rdf+xml";

struct HeifItem {
  uint32_t type = 0;              // "hvc1", "grid", ...; 0: not stated
  std::string_view content_type;  // of type "mime"
  bool is_hidden = false, is_protected = false;
  bool in_meta = false;  // its bytes are in the box "idat", else in the file
  bool is_elsewhere = false;
  struct Extent {
    uint64_t offset, length;
  };
  std::vector<Extent> extents;
  std::vector<uint16_t> properties;  // from 1, in the order that they are applied in
  Size size;                         // of a track's picture, which has no property for it
};

// Views of the parsed box. The box must outlive this.
class HeifItems {
 public:
  using Property = BoxReader::Box;

  // `name` is the format's, for messages; `meta` is the payload of the box "meta".
  static absl::StatusOr<HeifItems> Parse(const char* name, std::span<const uint8_t> meta);
  // One item, the first picture of the first track with pictures, of a file without others; `moov`
  // is the payload of the box "moov".
  static absl::StatusOr<HeifItems> OfTrack(const char* name, std::span<const uint8_t> moov);

  uint32_t primary() const { return primary_; }
  // An item without a type or bytes for an unknown number.
  const HeifItem& At(uint32_t id) const;
  const std::map<uint32_t, HeifItem>& all() const { return items_; }
  std::vector<Property> PropertiesOf(uint32_t id) const;
  // The items in references of `type` from `from`, in order ("dimg": the tiles of a grid), and the
  // items with references to `to` ("auxl": its alpha).
  std::vector<uint32_t> ReferencesFrom(uint32_t type, uint32_t from) const;
  std::vector<uint32_t> ReferencesTo(uint32_t type, uint32_t to) const;
  struct Reference {
    uint32_t type, from, to;
  };
  std::span<const Reference> references() const { return references_; }
  const LeftOut& other_boxes() const { return other_boxes_; }  // that say nothing of items

  // The bytes of an item of `file`. `file` holds all of file_end(). INVALID_ARGUMENT: some are
  // elsewhere or beyond `max_bytes`.
  absl::StatusOr<std::vector<uint8_t>> BytesOf(uint32_t id, std::span<const uint8_t> file,
                                               uint64_t max_bytes) const;
  uint64_t file_end() const { return file_end_; }  // of the last item's data
  // Bound on the memory of this object, and of a search in it.
  size_t memory_bytes() const;

 private:
  explicit HeifItems(const char* name) : name_(name) {}
  absl::Status Fault(std::string_view what) const;
  absl::StatusOr<HeifItem*> Add(uint64_t id);
  absl::Status ParseInformation(BoxReader reader);
  absl::Status ParseLocations(BoxReader reader);
  absl::Status ParseReferences(BoxReader reader);
  absl::Status ParseProperties(BoxReader reader);
  absl::Status ParseAssociations(BoxReader reader);
  absl::Status ParseTrack(BoxReader samples);

  const char* name_;
  uint32_t primary_ = 0;
  std::map<uint32_t, HeifItem> items_;
  std::vector<Property> properties_;
  std::vector<Reference> references_;
  LeftOut other_boxes_;
  std::span<const uint8_t> data_;  // of "idat"
  uint64_t file_end_ = 0;
};

}  // namespace upscaled
