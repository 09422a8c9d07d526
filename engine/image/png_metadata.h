// Metadata in the chunks of a PNG file. Private to engine/image.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/image/metadata.h"

namespace upscaled {

struct PngChunk {
  std::string type;
  std::string data;
};

// Whether ReadPngChunk takes chunks of this type; others have no place in a result.
bool IsPngMetadata(std::string_view type);

// Adds the contents of an ancillary chunk to `metadata`, inflated to `max_bytes` at most. A second
// chunk of a type with a limit of one changes nothing. False: the chunk is damaged or beyond this
// bound or kMaxTexts.
bool ReadPngChunk(std::string_view type, std::string_view data, size_t max_bytes,
                  ImageMetadata& metadata);

// All but the profile, see MetadataForResult.
std::vector<PngChunk> PngChunksOf(const ImageMetadata& metadata);

}  // namespace upscaled
