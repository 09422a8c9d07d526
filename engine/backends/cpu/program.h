// A network made ready for this backend: its layers as kernels run them, with their kernels.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/kernels/pooled_sums.h"
#include "engine/graph/kernel_choice.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::cpu {

// The ranges that layers read, by the indices of the layers that nodes end at in a network.
using Calibration = std::map<int, InputRanges>;

// Immutable, thread safe. Vectors are indexed as network.layers, if nothing else is said.
struct Program {
  Precision precision = Precision::kExact;
  // The nodes of the network's plan as layers ("conv+crop+sum"), without weights. A layer with a
  // prelude is preceded by it, layers that convert tensors between floats and halves are added
  // where kernels of both kinds meet, and fully connected layers are 1x1 convolutions.
  Network network;
  // Null for the input and global poolings, whose values are given.
  std::vector<std::unique_ptr<LayerKernel>> kernels;
  std::vector<const KernelEntry*> kernel_infos;
  std::vector<int> block_px;
  std::vector<int> block_origin_px;  // where the layer's blocks begin, on both axes
  std::vector<int> pixel_stride;     // the layer's tensor's, in floats
  std::vector<bool> half;            // whether it is blocked and of halves
  std::vector<Margin> margin;        // around the layer's tensor: what its consumers read
  std::vector<std::vector<int>> consumers;
  // Products with one factor a channel that nobody computes: their readers take the first input's
  // tensor and the factors (Tensor::factors). Without a kernel.
  std::vector<bool> scaled_view;
  // Layers that tiles keep from one pass over an image with global poolings to the next: the pooled
  // ones, those where the next pass goes on, and images on the way to them, which are small.
  std::vector<bool> cached;
  std::vector<int> poolings;               // ListPoolings
  std::vector<int> index_of;               // of the source's layers; -1: has none
  SampleConversions sample_conversions{};  // the instruction set's, as the next two
  PooledSums pooled_sums{};
  CurveFunction curve = nullptr;
  size_t scratch_floats = 0;  // the largest kernel's
  size_t weight_bytes = 0;
};

// As PlanNetwork; `chooser` chooses in precision kExact alone. kFast needs HasVnni(isa).
// `calibration`: what layers read, for kernels that want to know. RESOURCE_EXHAUSTED: the packed
// weights may exceed their limit.
absl::StatusOr<Program> BuildProgram(const Network& source, Isa isa, const KernelEntry* forced,
                                     Precision precision = Precision::kExact,
                                     KernelChooser* chooser = nullptr,
                                     const Calibration& calibration = {});

}  // namespace upscaled::cpu
