// The alpha channel next to a network pass for colour only.
#pragma once

#include "engine/base/geometry.h"
#include "engine/image/image.h"

namespace upscaled {

// Source rows above and below an enlarged row on which it depends.
inline constexpr int kAlphaHaloPx = 2;

// Enlarges alpha by an integer factor with the Catmull-Rom cubic (Keys 1981, a = -1/2; half-pixel
// centres, edges replicated): interpolating: opaque stays opaque, and an edge stays as sharp. `src`
// holds rows [src_y, src_y + its height) of an image of `image_height_px` rows: all rows of the
// source for this result. `dst` is rows [dst_y, ...) of the enlarged image. Both are RGBA of
// integer type; only the fourth channel is read and written.
void EnlargeAlpha(const ImageView& src, int src_y, int image_height_px, int factor,
                  const MutableImageView& dst, int dst_y);

}  // namespace upscaled
