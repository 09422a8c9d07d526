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
  std::vector<int> end_of;     // the kAdd whose first input alone a layer is; -1: none
};

Sums FindSums(const Network& network);

}  // namespace upscaled::cpu
