// The parts that networks of windowed attention share: Swin's block and its kin.
// Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021
#pragma once

#include <string>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Returns a side of the windows of a module with a table of biases
// (NAME.relative_position_bias_table, one row for each distance of two pixels, one column for each
// head); 0 after an error.
int WindowSide(NetworkBuilder& builder, const std::string& name);

// Appends NAME.qkv, the attention in windows of `window_px`, as WindowSide gives it, and NAME.proj.
// `rolled_px`: how far the published code rolls the image to the left and up before it is cut into
// windows; windows begin as many pixels right of the corner and below it.
int AttendInWindows(NetworkBuilder& builder, int input, const std::string& name, int window_px,
                    int rolled_px);

// Appends the two layers of a multilayer perceptron, with GELU in between.
int Mlp(NetworkBuilder& builder, int input, const std::string& first, const std::string& second);

}  // namespace upscaled
