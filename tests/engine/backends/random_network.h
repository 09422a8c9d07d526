// Random but sound networks, for tests of all networks.
#pragma once

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/model/network.h"

namespace upscaled::test {

// A chain of convolutions (1x1, 3x3, 5x5; valid or same; strides 1 to 3; widths from 1 to 64; any
// activation) with an end in RGB at scale 1 to 4, some with skips (crop with add, mul or concat),
// dense blocks, gates, resizes, pads, affine layers, norms, pixel shuffles, some with the enlarged
// image added, and squeeze-and-excite with factors of any operation. Passes Validate.
Network RandomNetwork(std::mt19937& random);
// One of Swin's blocks: windows of 1 to 8 pixels, shifted or not, at full or half size.
Network RandomAttentionNetwork(std::mt19937& random);
// One with its image or features padded to multiples their windows do not divide. Every result's
// pixel depends on a limited part of the image.
Network RandomAlignedNetwork(std::mt19937& random);
// One without group norms, since kFast has none.
Network RandomFastNetwork(std::mt19937& random);
// One with global poolings, of fewer multiply-adds for each source pixel. Small ones are rare.
Network RandomPooledNetwork(std::mt19937& random,
                            double max_macs_per_px = std::numeric_limits<double>::infinity());
// Small ones of two global poolings or more, one for each way in which the layer that the last one
// reads is computed or made of others: those other layers read it, too.
std::vector<Network> PooledLayerNetworks(std::mt19937& random);

// By hand, for tests of refused or pooled layers: only an RGB input; a same-padded convolution of
// zeros more; the mean of the last layer, and layer `factor` times this mean.
Network InputAlone();
void AppendConv(Network& network, int out_channels, int kernel_px);
void AppendTimesMean(Network& network, int factor);

// Blocks of a 3x3 convolution of 16 channels, a group norm and a skip.
Network NormalisedNetwork(int blocks);

// Blocks of two 3x3 convolutions of 64 channels and a skip, without weights.
Network DeepNetwork(int blocks);

// One line a layer, for failure messages.
std::string Describe(const Network& network);

}  // namespace upscaled::test
