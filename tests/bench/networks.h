// The networks of benches: a model's, or a known shape with random weights.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled::bench {

// `model`: "random:SHAPE" for a known shape (vgg_7, upconv_7, cunet, srvgg, srvgg_x4, rrdb, small,
// medium); a path to a weights file; otherwise a model's name in one of `folders` (scale 2 without
// denoising, or its first variant).
absl::StatusOr<Network> LoadBenchNetwork(const std::string& model,
                                         std::span<const std::filesystem::path> folders = {});

// A convolution with random weights and LeakyReLU.
Layer RandomConv(int in_channels, int out_channels, int padding_px, int kernel_px = 3);

}  // namespace upscaled::bench
