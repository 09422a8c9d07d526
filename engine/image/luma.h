// Gray of colour.
#pragma once

#include <cstdint>
#include <type_traits>

namespace upscaled {

// Rec. ITU-R BT.601-7, section 2.5.1; of integers rounded, halves up: gray keeps its value.
template <typename T>
T Luma(T r, T g, T b) {
  if constexpr (std::is_same_v<T, float>) return 0.299f * r + 0.587f * g + 0.114f * b;
  return static_cast<T>((299u * uint32_t(r) + 587u * uint32_t(g) + 114u * uint32_t(b) + 500u) /
                        1000u);
}

}  // namespace upscaled
