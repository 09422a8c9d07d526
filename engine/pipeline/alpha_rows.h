// The alpha channel beside a network pass, which computes colour alone.
#pragma once

#include "engine/base/geometry.h"
#include "engine/image/image.h"

namespace upscaled {

// Source rows above and below that an enlarged row depends on.
inline constexpr int kAlphaHaloPx = 2;

// Enlarges alpha by an integer factor with the Catmull-Rom cubic (Keys 1981, a = -1/2; half-pixel
// centres, edges replicated): interpolating, so that opaque stays opaque and an edge as sharp as it
// was. `src` holds rows [src_y, src_y + its height) of an image of `image_height_px` rows, all
// that the result needs; `dst` is rows [dst_y, ...) of the enlarged image. Both are RGBA of
// integer type; only the fourth channel is read and written.
void EnlargeAlpha(const ImageView& src, int src_y, int image_height_px, int factor,
                  const MutableImageView& dst, int dst_y);

}  // namespace upscaled
