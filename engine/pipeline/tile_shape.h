// The best tile size for an image: pure arithmetic.
#pragma once

#include <cstddef>

#include "engine/base/geometry.h"

namespace upscaled {

inline constexpr int kMinTilePx = 32;  // below this the halo costs more than the tile

// Inputs of the choice.
struct TileShapeInput {
  Size image;
  Size max_tile;          // the limit of the device or the user
  int halo_px = 0;        // source pixels beyond a side of a tile that its result depends on
  bool sees_all = false;  // a smaller tile is no less work
  int streams = 1;        // tiles computed side by side
  int min_share_px = 0;   // Executable::MinSharePx
  // Memory of one source row of a band, source and result; 0: the image is in memory as a whole,
  // and nothing waits for its first band or its last.
  size_t row_bytes = 0;
  size_t halo_bytes = 0;  // memory that a band takes whatever its height
  size_t budget_bytes = 0;
};

struct TileShape {
  Size tile;
  int bands = 1;  // rows of tiles held at a time: one being read out, the others in flight
};

// Picks the tiles that finish the image soonest on `streams` streams: whole rounds of tiles of
// equal size, halo included. They are held in enough bands to have about two tiles a stream in
// flight while one band is read out. Bands keep within the budget down to a height of kMinTilePx
// and two bands.
TileShape ChooseTileShape(const TileShapeInput& input);

}  // namespace upscaled
