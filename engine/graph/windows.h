// Where the windows of kWindowAttention lie: pure arithmetic, shared by all backends.
#pragma once

#include "engine/base/geometry.h"
#include "engine/model/network.h"

namespace upscaled {

// Returns the window of queries around a pixel; it may hang over the layer's ends.
Rect WindowAt(const Layer& layer, int x, int y);

// Returns the pixels a window's queries see keys of, if these count.
Rect KeysOfWindow(const Layer& layer, const Rect& window);

// Returns the keys' pixels in a layer of this size. Those outside the layer are zeros.
Rect CountedPixels(const Layer& layer, Size size);

}  // namespace upscaled
