// The networks that benches run: a model's, or a known shape with random weights.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled::bench {

// `model`: "random:vgg_7", "random:upconv_7", "random:srvgg", "random:small" for a shape; a path
// to a weights file; else a model's name in `repository` (scale 2 without denoising, or its first
// variant).
absl::StatusOr<Network> LoadBenchNetwork(const std::string& model, const std::string& repository);

// A convolution with random weights and LeakyReLU.
Layer RandomConv(int in_channels, int out_channels, int padding_px, int kernel_px = 3);

}  // namespace upscaled::bench
