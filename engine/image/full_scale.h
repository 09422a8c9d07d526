// The sample value of 1.0.
#pragma once

#include <limits>
#include <type_traits>

namespace upscaled {

// 255, 65535 or 1.0f.
template <typename T>
constexpr T kFullScale = std::is_floating_point_v<T> ? T{1} : std::numeric_limits<T>::max();

}  // namespace upscaled
