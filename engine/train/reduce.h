// Small images from large ones, in the ways of images on the web.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/image/image.h"

namespace upscaled::train {

enum class Reduction : uint8_t {
  kBox,      // the mean
  kBicubic,  // Catmull-Rom, antialiased: what most tools call bicubic
  kLanczos,  // Lanczos-3, antialiased
  // The same in linear light: of the light behind sRGB's values.
  kBoxLinear,
  kBicubicLinear,
  kLanczosLinear,
};
inline constexpr std::array kReductions = {Reduction::kBox,           Reduction::kBicubic,
                                           Reduction::kLanczos,       Reduction::kBoxLinear,
                                           Reduction::kBicubicLinear, Reduction::kLanczosLinear};

// "box", "bicubic_linear".
const char* ReductionName(Reduction reduction);

// `image`: its sides multiples of `factor`; 8 bits, or floats where light is not linear. 8 bits are
// rounded half up.
absl::StatusOr<Image> Reduce(const Image& image, int factor, Reduction reduction);

// By Lanczos-3: for comparison with enlarged images.
absl::StatusOr<Image> Enlarge(const Image& image, int factor);

}  // namespace upscaled::train
