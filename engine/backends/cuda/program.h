// A network's plan as launches, and the memory of their results. Only arithmetic, the same for both
// precisions.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/network_plan.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/network.h"

namespace upscaled::cuda {

// How a node is launched.
enum class NodeKind {
  kLoadPixels,   // the input, from the image
  kFirstConv,    // straight from the image
  kConv,         // with the shuffle of its result and a sum, if any
  kElementwise,  // a concatenation: a launch for each input
  kLoadMeans,    // a global pooling, whose means are given
};

// Planes of memory for one layer's result, or for a concatenation and all its inputs: these are
// computed where they are needed, and the concatenation costs nothing.
struct Allocation {
  int planes = 0;
  int slot = 0;  // the buffer that it lives in, see AssignSlots
};

// Where a layer's result lives.
struct Placement {
  int allocation = -1;  // index into Program::allocations; -1: it is never stored
  int first_plane = 0;
};

struct Program : NetworkPlan {        // without the nodes of what costs nothing
  std::vector<NodeKind> kinds;        // as nodes
  std::vector<Placement> placements;  // as network.layers
  std::vector<Allocation> allocations;
  int slots = 0;
  std::vector<bool> per_image;  // IsPerImage
  // As network.layers: the side of the blocks, from the layer's corner, computed whole by a kernel.
  // Empty: 1 everywhere.
  std::vector<int> block_px;
  int period_px = 1;  // tiles so far apart look the same to every layer
  int reach_px = 0;   // how far a tile's source exceeds it, at most
  size_t gated_bytes =
      0;  // the largest node's weights, to be multiplied by a gate; set by the backend
  // The last node is a kConv and writes the image's samples itself; the result is not placed.
  bool writes_samples = false;
};

NodeKind KindOf(const Network& network, const Node& node);

// As PlanTile of the program's network, in its blocks. The result is computed as it is asked for,
// from inputs of whole blocks.
TilePlan PlanTile(const Program& program, Size image, const Rect& tile);

// `block_px`: Program's.
Program BuildProgram(NetworkPlan plan, std::vector<int> block_px = {});

}  // namespace upscaled::cuda
