// The parts of an image in the hands of stages.
#pragma once

#include "engine/image/image.h"

namespace upscaled {

// So many rows of an image.
constexpr ImageSpec WithHeight(ImageSpec spec, int height_px) {
  spec.height_px = height_px;
  return spec;
}

constexpr ImageSpec OneRow(const ImageSpec& spec) { return WithHeight(spec, 1); }

}  // namespace upscaled
