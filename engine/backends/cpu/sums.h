// What sums take over from layers that nothing else reads, so that these need no rows of their own.
#pragma once

#include <vector>

#include "engine/model/network.h"

namespace upscaled::cpu {

// Vectors are indexed as the network's layers.
struct Sums {
  struct Inputs {
    int first = -1;
    int second = -1;  // may be a crop, see below
  };
  std::vector<Inputs> inputs;  // of each kAdd
  std::vector<bool> cropped;   // kCrops that are made while a sum reads its second input
  // The kAdd without an activation that alone reads a layer, as its first input; -1: none.
  std::vector<int> end_of;
};

Sums FindSums(const Network& network);

}  // namespace upscaled::cpu
