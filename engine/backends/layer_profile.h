// The times of a network's layers in one run of a tile.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/base/geometry.h"
#include "engine/model/network.h"

namespace upscaled {

struct LayerProfile {
  std::string layer;       // "conv+sum" where one kernel computes several
  std::string shape;       // "64-128 3x3 480x270"
  std::string kernel;      // that computed it
  std::string work_group;  // "8x4x1"; empty where there is none
  double operations = 0;   // the direct algorithm's
  double bytes = 0;        // the layer's inputs, output and weights, each once
  double seconds = 0;
};

// All that does not depend on who computes it; `regions` as TilePlan has them. Values and weights
// are stored in `value_bytes` each.
LayerProfile DescribeLayer(const Network& network, size_t layer, std::span<const Rect> regions,
                           size_t value_bytes);

}  // namespace upscaled
