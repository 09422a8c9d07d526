// Layers to test every kernel of every backend on, against the reference.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/reference/tensor.h"
#include "engine/base/geometry.h"
#include "engine/model/network.h"

namespace upscaled::test {

// A convolution with random weights and biases, its results of size 1 for inputs of size 1.
Layer MakeConv(Op op, int in, int out, int kernel, int stride, int padding, std::mt19937& random);

// The same in groups.
Layer MakeGroupedConv(int groups, int in, int out, int kernel, int stride, int padding,
                      std::mt19937& random);

// A layer without weights.
Layer MakePlain(Op op, int in, int out, int factor, int crop_px, std::vector<int> inputs);

// Layers for every branch of every kernel, with random activations.
std::vector<Layer> TestedLayers(std::mt19937& random);

// The output of `layer` for an input of this size along one axis.
int OutputSide(const Layer& layer, int in);

// One line, for failure messages.
std::string Describe(const Layer& layer);

// Standard normal values.
reference::Tensor RandomTensor(int channels, Size size, std::mt19937& random);

// For input number `i` of a layer with a first input of size `in`.
reference::Tensor RandomInput(const Layer& layer, size_t i, Size in, std::mt19937& random);

// The reference's result for whole inputs: the layer's output, of this size.
reference::Tensor ComputeReference(const Layer& layer, const std::vector<reference::Tensor>& inputs,
                                   Size out);

}  // namespace upscaled::test
