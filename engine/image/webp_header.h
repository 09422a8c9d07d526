// The container of a WebP file up to the pixels.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"

namespace upscaled {

// The colour profile, empty when the file has none; `prefix` must be long enough for the header.
std::span<const uint8_t> WebpIccProfile(std::span<const uint8_t> prefix);

// Whether `prefix` of the file of `image` reaches beyond what the image's Huffman tables depend
// on; libwebp, which allocates them, must have no more bytes before. RESOURCE_EXHAUSTED when there
// are more than kMaxHuffmanBlocks.
absl::StatusOr<bool> CheckHuffmanTables(std::span<const uint8_t> prefix, Size image);

}  // namespace upscaled
