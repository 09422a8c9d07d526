// Extra work for a layer with weights, so no layer has to do it behind it.
#pragma once

#include <span>
#include <vector>

#include "engine/model/network.h"

namespace upscaled {

// Each returns false, and changes nothing, when `producer` cannot take it over: when it has no
// weights, or an activation already. No other layer may read the producer's plain result.
bool FuseActivation(const Layer& activation, Layer& producer);
// `affine`: a kAffine layer.
bool FuseAffine(const Layer& affine, Layer& producer);

// Makes result channel c of `producer`'s channel order[c], its activation included. False when it
// is no convolution.
bool FusePermutation(std::span<const int> order, Layer& producer);

// The order to make channels [dy][dx][c], as some formats have them before a pixel shuffle, the
// [c][dy][dx] of Op::kPixelShuffle. `channels`: a multiple of factor^2.
std::vector<int> DepthFirstOrder(int channels, int factor);

// A 1x1 convolution with the effect of FusePermutation.
Layer MakePermutation(std::span<const int> order);

}  // namespace upscaled
