// Derivatives against central differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/train/tensor.h"

namespace upscaled::train {

// Where the pixels, not what lies between them, are among a tensor's values.
template <typename Real>
std::vector<size_t> PixelsOf(const Tensor<Real>& tensor) {
  std::vector<size_t> places;
  for (int c = 0; c < tensor.channels(); ++c) {
    for (int line = 0; line < tensor.grid().lines(); ++line) {
      if (tensor.grid().IsZeroLine(line)) continue;
      const size_t first = tensor.line(c, line) - tensor.values().data();
      for (int x = 0; x < tensor.grid().size.width; ++x) places.push_back(first + x);
    }
  }
  return places;
}

// With numbers of -1 to 1 that are no closer to a kink at 0 than a central difference reaches.
template <typename Real>
void FillPixels(Tensor<Real>& tensor, std::mt19937& random) {
  std::uniform_real_distribution<Real> number(0.001, 1);
  for (const size_t place : PixelsOf(tensor)) {
    tensor.values()[place] = random() % 2 == 0 ? number(random) : -number(random);
  }
}

inline std::vector<double> RandomNumbers(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<double> numbers(count);
  for (double& value : numbers) value = number(random);
  return numbers;
}

inline std::vector<size_t> AllPlaces(const std::vector<double>& values) {
  std::vector<size_t> places(values.size());
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

// Looks at `count` of the places among the values, drawn at random: the derivative of `function` by
// the value must be the central difference, to `relative` of the largest looked at. A small `step`
// meets fewer kinks, and more rounding.
inline void CheckDerivatives(const std::function<double()>& function, std::vector<double>& values,
                             const std::vector<size_t>& places,
                             const std::vector<double>& derivatives, int count, double relative,
                             std::mt19937& random, double step = 1e-5) {
  std::vector<double> wrong_by;
  double largest = 0;
  for (int i = 0; i < count; ++i) {
    const size_t at = places[std::uniform_int_distribution<size_t>(0, places.size() - 1)(random)];
    const double value = values[at];
    values[at] = value + step;
    const double above = function();
    values[at] = value - step;
    const double below = function();
    values[at] = value;
    const double difference = (above - below) / (2 * step);
    wrong_by.push_back(std::abs(difference - derivatives[at]));
    largest = std::max({largest, std::abs(difference), std::abs(derivatives[at])});
  }
  ASSERT_GT(largest, 0) << "nothing depends on the values";
  for (const double wrong : wrong_by) ASSERT_LE(wrong, relative * largest);
}

}  // namespace upscaled::train
