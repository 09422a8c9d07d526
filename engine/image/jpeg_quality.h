// How coarsely a JPEG was quantised, told from its tables.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace upscaled {

// Steps of the 64 frequencies in zigzag order, as DQT has them.
using QuantisationTable = std::array<uint16_t, 64>;

// The quality, 1 to 100, with a luma table of libjpeg's on average as coarse as `luma`: exact for
// its own tables, an equivalent for other encoders' tables. The scale is jpeg_set_quality's; the
// base is ITU-T T.81, table K.1.
int EstimateJpegQuality(const QuantisationTable& luma);

}  // namespace upscaled
