// Writing the chunks of a PNG file. Private to engine/image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/image/endian.h"
#include "engine/image/piece_deflater.h"

namespace upscaled {

inline constexpr size_t kPngChunkHeadBytes = 8;  // length, type
inline constexpr size_t kPngChunkTailBytes = 4;  // CRC

// Completes a chunk with its data behind kPngChunkHeadBytes of room.
inline void FinishPngChunk(std::string_view type, std::vector<uint8_t>& chunk) {
  StoreBe32(static_cast<uint32_t>(chunk.size() - kPngChunkHeadBytes), chunk.data());
  std::copy(type.begin(), type.end(), chunk.begin() + 4);
  const uint32_t crc = Crc32(std::span(chunk).subspan(4));
  chunk.resize(chunk.size() + kPngChunkTailBytes);
  StoreBe32(crc, chunk.data() + chunk.size() - kPngChunkTailBytes);
}

}  // namespace upscaled
