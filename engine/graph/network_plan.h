// A network compiled for a backend's kernels: the layers computed together, their kernels, and the
// lives of results. The backend makes the kernels and runs the nodes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/graph/kernel_set.h"
#include "engine/model/network.h"

namespace upscaled {

// One kernel's work. Layers are given as indices of NetworkPlan::network's; -1: no layer.
struct Node {
  std::vector<int> layers;   // that it covers; the last one's result is its own
  int main = -1;             // the one that the kernel is for, which has the weights
  int shuffle = -1;          // a pixel shuffle of main's result
  std::vector<int> inputs;   // that it reads, but for the residual
  int residual = -1;         // added to the result
  int residual_crop_px = 0;  // off every side of the residual
  int residual_factor = 1;   // each pixel that is left is for residual_factor^2 pixels
  int gate = -1;             // factors of the image, one per channel, of the input
  int residual_gate = -1;    // and of the residual
  int resize_factor = 1;     // with reads_image: of the resize behind the input
  bool reads_image = false;  // the image's samples, not layer 0; then no inputs
  KernelChoice kernel;       // none for the input, and for a global pooling if none supports it

  int layer() const { return layers.back(); }
  // The inputs, the residual and the gates.
  std::vector<int> Reads() const;
};

struct NetworkPlan {
  Network network;            // without weights
  std::vector<Node> nodes;    // in order of their layers; none for what the result does not need
  std::vector<int> poolings;  // ListPoolings
};

// `forced` (may be null) takes every supported layer; `chooser` (may be null) chooses for the
// others. UNIMPLEMENTED names the first unsupported layer, or the forced kernel if it supports no
// layer. RESOURCE_EXHAUSTED, where all are supported: one layer's weights may exceed the limit of
// weight_budget.h.
absl::StatusOr<NetworkPlan> PlanNetwork(const Network& network, const KernelSet& kernels,
                                        const KernelInfo* forced = nullptr,
                                        KernelChooser* chooser = nullptr);

// The node's computation as one layer: its main one with the names of all covered layers, and the
// cropped and resized residual, if any, as its last input. `network` has the weights. The node
// neither shuffles nor reads the image: a layer cannot say so.
Layer FusedLayer(const Network& network, const Node& node);

// Where results live: `allocation_of` each layer (-1: nowhere), each from the first node to write
// into it to the last to read from it, the network's result to the end. Gives each allocation its
// slot (0, 1, ...); no two share one at a time.
std::vector<int> AssignSlots(const NetworkPlan& plan, std::span<const int> allocation_of);

}  // namespace upscaled
