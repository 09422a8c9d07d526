// Pictures of HEVC by libde265, whole or put together of tiles. Private to engine/image.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/hevc_parameters.h"

namespace upscaled {

// Colours by the numbers of ISO/IEC 23091-2; 2: not stated.
struct HevcColours {
  uint16_t primaries = 2, transfer = 2, matrix = 2;
  bool full_range = false;
};

// The planes of a picture: one, or three (the second and third may be smaller), by
// `sequence.chroma`. A sample of 8 bits has one byte, a deeper one two.
struct HevcPlanes {
  struct Plane {
    std::vector<uint8_t> samples;
    size_t row_bytes = 0;
  };

  HevcPlanes(Size size, const HevcSequence& sequence);
  Size size;
  int chroma, bits;
  std::array<Plane, 3> planes;
  HevcColours colours;  // as the pictures state them
};

// Decodes the only picture of `data`, units with their lengths, on this thread, and writes it into
// `planes` at (x, y), as far as it reaches. Returns the decoder's remarks on damage, or "".
// INVALID_ARGUMENT: there is no picture, or it is of another size or kind than the configuration's.
absl::StatusOr<std::string> DecodeHevcPicture(const HevcConfiguration& configuration,
                                              std::span<const uint8_t> data, int x, int y,
                                              HevcPlanes& planes);

}  // namespace upscaled
