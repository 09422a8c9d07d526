// Resizes by a fraction, or by bicubic interpolation, as layers of every backend: a border, a
// strided convolution of each channel and a pixel shuffle.
#pragma once

#include <optional>
#include <vector>

#include "engine/model/network.h"

namespace upscaled {

// A factor in lowest terms.
struct Fraction {
  int up = 1, down = 1;
};

// Returns `factor` as a fraction with terms of at most 8; nothing if it is no such fraction.
std::optional<Fraction> FractionOf(double factor);

enum class Interpolation {
  kNearest,   // the pixel at floor(o / factor)
  kBilinear,  // half-pixel centres
  kBicubic,   // half-pixel centres; Keys' kernel with a = -0.75, as PyTorch and ncnn have it
};

// Returns layers to resize `channels` planes; each reads the one before it. Pixels past the edge
// are its own. Inputs are left empty. The sides of the planes must be multiples of `factor.down`,
// as Network::ValidateSizes checks.
std::vector<Layer> MakeFractionalResize(Interpolation interpolation, Fraction factor, int channels);

}  // namespace upscaled
