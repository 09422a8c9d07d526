// The weight transforms of F(4, 3) and F(6, 3), at the points of winograd_transform-inl.h.
#pragma once

#include <array>

namespace upscaled::cpu {

// G of F(m x m, 3 x 3): 3 weights to m + 2 points.
template <int kOutputs>
using WeightTransform = std::array<std::array<double, 3>, kOutputs + 2>;

// F(4, 3) of points 0, +-a, +-b, infinity.
constexpr WeightTransform<4> WeightsOfPoints(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  const double n = a2 * b2, na = 2 * a2 * (a2 - b2), nb = 2 * b2 * (b2 - a2);
  return {{{1 / n, 0, 0},
           {1 / na, a / na, a2 / na},
           {1 / na, -a / na, a2 / na},
           {1 / nb, b / nb, b2 / nb},
           {1 / nb, -b / nb, b2 / nb},
           {0, 0, 1}}};
}

inline constexpr WeightTransform<4> kF4Weights = {{{1. / 4, 0, 0},
                                                   {-1. / 6, -1. / 6, -1. / 6},
                                                   {-1. / 6, 1. / 6, -1. / 6},
                                                   {1. / 24, 1. / 12, 1. / 6},
                                                   {1. / 24, -1. / 12, 1. / 6},
                                                   {0, 0, 1}}};
inline constexpr WeightTransform<6> kF6Weights = {{{1, 0, 0},
                                                   {-2. / 9, -2. / 9, -2. / 9},
                                                   {-2. / 9, 2. / 9, -2. / 9},
                                                   {1. / 90, 1. / 45, 2. / 45},
                                                   {1. / 90, -1. / 45, 2. / 45},
                                                   {1. / 45, 1. / 90, 1. / 180},
                                                   {1. / 45, -1. / 90, 1. / 180},
                                                   {0, 0, 1}}};

}  // namespace upscaled::cpu
