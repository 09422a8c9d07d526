// How much memory a lossless WebP stream makes libwebp take. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"

namespace upscaled {

// A lossless image is cut into blocks. Each chooses a group of Huffman codes. libwebp allocates the
// tables of all groups in the blocks before it reads one of them: 12 to 21 KB a group, 800 MB and
// more for a megapixel in blocks of 4 x 4. Its own encoder makes no more blocks than:
inline constexpr size_t kMaxHuffmanBlocks = 2600;

// Bound on the tables of an image of `size` with at most kMaxHuffmanBlocks.
size_t HuffmanTableBytes(Size size);

// The blocks of the image at the beginning of `stream`: the bits after the header of a VP8L or ALPH
// chunk. Reads past the transforms' data. nullopt: more bytes are needed. INVALID_ARGUMENT:
// corrupt.
absl::StatusOr<std::optional<size_t>> CountHuffmanBlocks(std::span<const uint8_t> stream,
                                                         Size size);

}  // namespace upscaled
