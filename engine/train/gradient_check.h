// Derivatives held to central differences, in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/train/conv_kernel.h"
#include "engine/train/tensor.h"

namespace upscaled::train {

// The places of the pixels among a tensor's values, without the gaps between them.
std::vector<size_t> PixelsOf(const Tensor<double>& tensor);

// Fills the pixels with numbers of -1 to 1 at least as far from a kink at 0 as a central difference
// reaches.
void FillPixels(Tensor<double>& tensor, std::mt19937_64& random);

// How far the derivatives of `function` by some of `values` are from its central differences, at
// most, relative to the largest of these; infinite where all of them are 0.
struct DerivativeCheck {
  int count = 60;      // of places, drawn
  double step = 1e-5;  // a small one meets fewer kinks, and more rounding
};
double DerivativeError(const std::function<double()>& function, std::span<double> values,
                       const std::vector<size_t>& places, std::span<const double> derivatives,
                       const DerivativeCheck& check, std::mt19937_64& random);

// The error of one step, by its sources and its parameters, over several grids.
struct StepError {
  std::string step;
  double error = 0;
};
inline constexpr double kMaxStepError = 1e-6;
std::vector<StepError> CheckSteps(uint64_t seed, const ConvDevice& device = {});

}  // namespace upscaled::train
