// Colours that tags of a TIFF file describe. Private to engine/image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/image/metadata.h"
#include "engine/image/tiff_directory.h"

namespace upscaled {

// Whether `tag` is WhitePoint, PrimaryChromaticities or TransferFunction.
bool IsTiffColour(uint16_t tag);

// cHRM by WhitePoint with PrimaryChromaticities, and gAMA by a TransferFunction that is a power of
// samples of `bits`. One of sRGB's curve needs no chunk. Adds a sentence for the tags of
// `directory` with other values, or beyond the file's end.
std::vector<ColourChunk> ReadTiffColours(const TiffFile& file, const TiffDirectory& directory,
                                         int bits, std::vector<std::string>& warnings);

}  // namespace upscaled
