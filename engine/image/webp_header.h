// The container of a WebP file up to the pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"

namespace upscaled {

// The first whole chunk `type` in a file, or in as much of it as there is.
std::optional<std::span<const uint8_t>> FindWebpChunk(std::span<const uint8_t> file,
                                                      std::string_view type);

// Whether the file states that EXIF or XMP chunks follow its pixels.
bool HasLateWebpChunks(std::span<const uint8_t> prefix);

// The file's size by its header, which `prefix` must hold.
size_t WebpFileBytes(std::span<const uint8_t> prefix);

// The EXIF block of a file, "" without.
std::string WebpExif(std::span<const uint8_t> file);

// Whether `prefix` of the file of `image` reaches beyond what the image's Huffman tables depend
// on; libwebp, which allocates them, must have no more bytes before. RESOURCE_EXHAUSTED when there
// are more than kMaxHuffmanBlocks.
absl::StatusOr<bool> CheckHuffmanTables(std::span<const uint8_t> prefix, Size image);

}  // namespace upscaled
