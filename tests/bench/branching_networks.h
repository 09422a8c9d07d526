// Known shapes with skips, poolings and dense blocks, with random weights.
#pragma once

#include "engine/model/network.h"

namespace upscaled::bench {

// waifu2x's two U-Nets with squeeze-and-excite, x2.
Network RandomCunet();

// ESRGAN's residual-in-residual dense blocks, x4.
Network RandomRrdb(int blocks);

}  // namespace upscaled::bench
