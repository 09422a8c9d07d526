// Measures the distance between results and their targets.
#pragma once

#include <string>

#include "engine/train/tensor.h"

namespace upscaled::train {

// Weights of the terms; each is a mean over an image's values, of the error e in 0..1.
struct LossWeights {
  double l1 = 0;                 // |e|
  double charbonnier = 0;        // sqrt(e^2 + 0.01^2)
  double log_squared_error = 0;  // ln(mean of e^2 + 1e-6): each image counts as PSNR counts it
  double colour_mean = 0;        // |mean of e|, of each channel: against shifts of colour
};

// The recipe of the bundled models (engine/train/bundled).
inline constexpr LossWeights kPsnrLoss = {.log_squared_error = 0.1, .colour_mean = 2};

// "0.1 log squared error + 2 colour mean".
std::string LossText(const LossWeights& weights);

// The sum over the images divided by `batch`; they may be a part of a batch. Writes its derivative
// to the pixels of `d_result`. All three have one grid.
template <typename Real>
double ComputeLoss(const LossWeights& weights, const Tensor<Real>& result,
                   const Tensor<Real>& target, int batch, Tensor<Real>& d_result);

}  // namespace upscaled::train
