// A network as launches: which layers are computed together, and in which memory results live.
// Arithmetic alone, the same for both precisions.
#pragma once

#include <vector>

#include "engine/model/network.h"

namespace upscaled::cuda {

// Layers are given as indices of Program::network's; -1 for none.
struct Step {
  enum class Kind {
    kLoadPixels,   // the input, from the image
    kFirstConv,    // `conv` of the input, or of a nearest resize of it, straight from the image
    kConv,         // `conv`, with the `shuffle` of its result and a sum, if any
    kElementwise,  // a concatenation: a launch for each input
    kLoadMeans,    // a global pooling, whose means are given
  };
  Kind kind = Kind::kElementwise;
  int layer = -1;           // whose result it computes, the last of those that it covers
  std::vector<int> inputs;  // what it reads as tensors, but for the residual
  int conv = -1;
  int shuffle = -1;
  int residual = -1;  // added to the result, each pixel for residual_factor x residual_factor
  int residual_factor = 1;
  int residual_crop_px = 0;  // off every side of the residual
  int resize_factor = 1;     // kFirstConv: of the resize behind the input
};

// Planes of memory that one layer's result takes, or those of a concatenation and all its inputs:
// these are computed where they are needed, and the concatenation costs nothing.
struct Root {
  int planes = 0;
  int slot = 0;  // the buffer that it lives in, see AssignSlots
};

// Where a layer's result lives.
struct Home {
  int root = -1;  // of Program::roots; -1: it is never stored
  int first_plane = 0;
};

struct Program {
  Network network;          // without weights
  std::vector<Step> steps;  // in order of Step::layer
  std::vector<Home> homes;  // as network.layers
  std::vector<Root> roots;
  int slots = 0;
  std::vector<int> poolings;    // ListPoolings
  std::vector<bool> per_image;  // IsPerImage
  int period_px = 1;            // tiles so far apart look the same to every layer
  int reach_px = 0;             // how far a tile's source exceeds it, at most
  // The last step is a kConv, which writes the image's samples itself; the result has no home.
  bool writes_samples = false;
};

// `first_conv` says which convolutions kFirstConv can run.
Program BuildProgram(const Network& network, bool (*first_conv)(const Layer& conv));

}  // namespace upscaled::cuda
