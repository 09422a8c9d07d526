// Frames with a few rectangles changed from one to the next, for tests of animations and films.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "engine/image/image.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

inline Image CopyOf(ImageView image) {
  Image copy(image.spec);
  for (int y = 0; y < image.height_px(); ++y)
    std::memcpy(copy.mutable_view().row(y), image.row(y), image.spec.row_bytes());
  return copy;
}

// Writes other pixels into a random rectangle of up to a third of each side; of one pixel at times.
inline void ChangeRectangle(Image& image, std::mt19937& random) {
  const ImageSpec& spec = image.spec();
  ImageSpec part = spec;
  const bool is_pixel = RandomInt(random, 0, 4) == 0;
  part.width_px = is_pixel ? 1 : RandomInt(random, 1, std::max(1, spec.width_px / 3));
  part.height_px = is_pixel ? 1 : RandomInt(random, 1, std::max(1, spec.height_px / 3));
  const Image pixels =
      RandomInt(random, 0, 1) == 0 ? RandomImage(part, random) : ArtImage(part, random);
  const Rect place{RandomInt(random, 0, spec.width_px - part.width_px),
                   RandomInt(random, 0, spec.height_px - part.height_px), part.width_px,
                   part.height_px};
  const MutableImageView to = image.mutable_view().Crop(place);
  for (int y = 0; y < part.height_px; ++y)
    std::memcpy(to.row(y), pixels.view().row(y), part.row_bytes());
}

// A photograph, and frames with up to three rectangles changed from the one before.
inline std::vector<Image> MovingFrames(const ImageSpec& spec, int count, std::mt19937& random) {
  std::vector<Image> frames;
  frames.push_back(PhotoImage(spec, random));
  while (static_cast<int>(frames.size()) < count) {
    Image frame = CopyOf(frames.back().view());
    for (int changes = RandomInt(random, 0, 3); changes > 0; --changes)
      ChangeRectangle(frame, random);
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace upscaled::test
