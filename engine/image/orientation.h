// Turning a stored image upright.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/image/codec.h"
#include "engine/image/row_source.h"

namespace upscaled {

constexpr bool SwapsSides(Orientation orientation) {
  return orientation >= Orientation::kTranspose;
}

// The rows of `stored` (must outlive the result) turned upright. Reads all of it for the first row:
// UprightBytes(stored.spec()) of memory.
std::unique_ptr<RowSource> MakeUpright(RowSource& stored, Orientation orientation);
size_t UprightBytes(const ImageSpec& stored);

}  // namespace upscaled
