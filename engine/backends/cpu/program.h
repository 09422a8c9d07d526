// A network made ready for this backend: its layers as kernels run them, with their kernels.
#pragma once

#include <algorithm>
#include <cstddef>
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
#include "engine/graph/tile_geometry.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::cpu {

// The ranges that layers read, by the indices of the layers that nodes end at in a network.
using Calibration = std::map<int, InputRanges>;

// A layer with its kernel and its place among the others. Layers are named by their indices.
struct Step {
  // Null for views, for the input and for global poolings, whose values are given.
  std::unique_ptr<LayerKernel> kernel;
  const KernelEntry* kernel_entry = nullptr;  // also of views that had a kernel
  int block_px = 1;
  BlockOrigin block_origin;
  int pixel_stride = 0;        // of the layer's tensor, in floats
  bool half = false;           // whether the tensor is blocked and of halves
  Margin margin;               // around the tensor: consumers read it
  std::vector<int> consumers;  // that have kernels: not global poolings
  // The layer in whose tensor this one's planes lie, and the first of them: parts of a
  // concatenation that are whole planes are written into its tensor. Most layers are their own
  // home.
  int home = 0;
  int home_plane = 0;
  // Whether it is a product with one factor a channel that is never computed: its readers take the
  // first input's tensor and the factors (Tensor::factors).
  bool scaled_view = false;
  // Whether it is a concatenation all of whose parts lie in place.
  bool joined_view = false;
  // Whether a later stage than the layer's own reads it.
  bool crosses = false;
  // Whether tiles keep it from one pass over an image with global poolings to the next: the pooled
  // layers, those where the next pass goes on, and images on the way to them, which are small.
  bool cached = false;

  // Whether the layer is never computed: its tensor is made of others.
  bool IsView() const { return scaled_view || joined_view; }
};

// Immutable, thread safe.
struct Program {
  Precision precision = Precision::kExact;
  // The nodes of the network's plan as layers ("conv+crop+sum"), without weights. A layer with a
  // prelude is preceded by it, layers that convert tensors between floats and halves are added
  // where kernels of both kinds meet and the first does not store what the second reads, and fully
  // connected layers are 1x1 convolutions.
  Network network;
  std::vector<Step> steps;  // one for each of network.layers
  // A deep network runs in stages, one after the other: each but the last ends with one of these
  // layers, and keeps whole what later ones read. So its weights stay in a cache from one row of
  // blocks to the next. One of many global poolings has a stage for each pass over the image, which
  // takes from an ActivationCache what the passes before kept.
  std::vector<int> cuts;
  std::vector<int> poolings;  // ListPoolings
  // Each of the source's layers here, where a node ends at it or is for it; -1: none.
  std::vector<int> index_of;
  SampleConversions sample_conversions{};  // the instruction set's, as the next two
  PooledSums pooled_sums{};
  CurveFunction curve = nullptr;
  size_t scratch_floats = 0;  // the largest kernel's
  size_t weight_bytes = 0;

  size_t StageOf(int layer) const {
    return std::lower_bound(cuts.begin(), cuts.end(), layer) - cuts.begin();
  }
  // The last stage that reads `layer`, through a view or not.
  size_t LastStageOf(int layer) const {
    size_t last = StageOf(layer);
    for (const int consumer : steps[layer].consumers) {
      last =
          std::max(last, steps[consumer].scaled_view ? LastStageOf(consumer) : StageOf(consumer));
    }
    return last;
  }
  bool HasStageForEachPass() const { return !poolings.empty() && !cuts.empty(); }
  // Whether those who read `consumer` read what `layer`, an input of it, has written.
  bool ReadsThrough(int layer, int consumer) const {
    return steps[consumer].scaled_view || (steps[consumer].home == steps[layer].home &&
                                           network.layers[consumer].op == Op::kConcat);
  }
};

// As PlanNetwork; `chooser` chooses in precision kExact only. kFast needs HasVnni(isa).
// `calibration`: what layers read, for kernels that want to know. `always_stages`: see
// BackendOptions. RESOURCE_EXHAUSTED: the packed weights may exceed their limit.
absl::StatusOr<Program> BuildProgram(const Network& source, Isa isa, const KernelEntry* forced,
                                     Precision precision = Precision::kExact,
                                     KernelChooser* chooser = nullptr,
                                     const Calibration& calibration = {},
                                     bool always_stages = false);

}  // namespace upscaled::cpu
