// What is applied to a sum before it is stored.
#pragma once

#include <cstdint>

#include "engine/backends/cpu/workspace.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Plain arguments for the kernels; arrays hold one value per channel, padded with zeros.
struct EpilogueArgs {
  enum Kind : uint8_t {
    kNone,
    kSlope,  // v < 0 ? v * slope : v  -- ReLU, LeakyReLU, PReLU
    kClip,
    kSigmoid,
  };
  Kind kind = kNone;
  const float* bias = nullptr;
  const float* slope = nullptr;
  float clip_min = 0;
  float clip_max = 0;
};

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
