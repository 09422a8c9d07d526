// The operations on a sum before it is stored.
#pragma once

#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

EpilogueArgs::Kind KindOf(Activation activation);

// Owns the padded arrays of one layer. Immutable.
class Epilogue {
 public:
  // `padded_channels` >= layer.out_channels.
  Epilogue(const Layer& layer, int padded_channels);
  const EpilogueArgs& args() const { return args_; }

 private:
  HugeBuffer bias_;
  HugeBuffer slope_;
  EpilogueArgs args_;
};

}  // namespace upscaled::cpu
