// The boxes of a file of HEIF, the container of AVIF and HEIC images, up to its items' data.
// Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"
#include "engine/image/heif_items.h"
#include "engine/image/left_out.h"

namespace upscaled {

// The primary item, as far as the boxes tell.
struct HeifLayout {
  explicit HeifLayout(HeifItems parsed) : items(std::move(parsed)) {}

  // The visible part, as stored.
  Size shown_size() const { return crop.value_or(Rect{0, 0, size.width, size.height}).size(); }

  HeifItems items;           // views of the bytes that were parsed
  uint32_t picture = 0;      // the item that is coded: the primary one, or its source ("iden")
  Size size;                 // as stored
  std::optional<Rect> crop;  // the clean aperture, as stored
  int bits = 8;
  bool is_gray = false;
  std::optional<uint32_t> alpha;  // the item
  Orientation orientation = Orientation::kIdentity;
  std::optional<uint32_t> transfer;  // by ISO/IEC 23091-2, where the colours are stated so
  size_t profile_bytes = 0;
  bool is_track = false;                          // it is the first picture of one
  int other_pictures = 0, other_auxiliaries = 0;  // that nobody here reads
  LeftOut other_items, other_properties;          // items that are no pictures
  size_t meta_end = 0;                            // of the box that tells all this
  uint64_t file_end = 0;                          // of the last item's data
};

// `name` is the format's, for messages. nullopt: more bytes are needed. Errors as ParseImageHeader.
absl::StatusOr<std::optional<HeifLayout>> ParseHeifLayout(const char* name,
                                                          std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits);

// The header of an image of `layout`, without its format and depth. `bytes_per_pixel` and
// `fixed_bytes` are the memory of the decoding library.
absl::StatusOr<ImageHeader> MakeHeifHeader(const char* name, const HeifLayout& layout,
                                           size_t fixed_bytes, size_t bytes_per_pixel,
                                           const DecodeLimits& limits);

// Whether "ftyp" names `brand`.
bool HasBrand(std::span<const uint8_t> prefix, std::string_view brand);

}  // namespace upscaled
