// The boxes of a file of HEIF, the container of AVIF and HEIC images, up to its items' data.
// Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

// The primary item, as far as the boxes tell.
struct HeifLayout {
  Size size;  // as stored
  int bits = 8;
  bool is_gray = false, has_alpha = false;
  bool is_cropped = false;  // states a clean aperture, which nobody here applies
  Orientation orientation = Orientation::kIdentity;
  std::optional<uint32_t> transfer;  // by ISO/IEC 23091-2, where the colours are stated so
  size_t profile_bytes = 0;
  size_t meta_end = 0;    // of the box that tells all this
  uint64_t file_end = 0;  // of the last item's data
};

// `name` is the format's, for messages. nullopt: more bytes are needed. Errors as ParseImageHeader.
absl::StatusOr<std::optional<HeifLayout>> ParseHeifLayout(const char* name,
                                                          std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits);

// Whether "ftyp" names `brand`.
bool HasBrand(std::span<const uint8_t> prefix, std::string_view brand);

}  // namespace upscaled
