// Colours multiplied by their alpha. Private to engine/image.
#pragma once

#include <algorithm>
#include <cstdint>

namespace upscaled {

// Divides the colours of a pixel of `channels` samples by its last one, alpha, rounded; they are 0
// if alpha is.
template <typename T>
void DivideByAlpha(int channels, T* pixel) {
  constexpr uint64_t kMost = T(-1);
  const uint64_t alpha = pixel[channels - 1];
  for (int c = 0; c < channels - 1; ++c)
    pixel[c] =
        alpha == 0 ? T{0} : static_cast<T>(std::min(kMost, (pixel[c] * kMost + alpha / 2) / alpha));
}

}  // namespace upscaled
