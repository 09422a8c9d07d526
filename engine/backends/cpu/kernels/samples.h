// Samples of images from floats and to them, a vector at a time.
#pragma once

#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::cpu {

// The result for a value does not depend on its place in the row.
const SampleConversions& SampleConversionsFor(Isa isa);

}  // namespace upscaled::cpu
