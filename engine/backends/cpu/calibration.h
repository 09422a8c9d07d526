// The ranges of values that networks' layers read in synthetic images, for kernels that fix the
// range of their numbers when they are made.
#pragma once

#include "absl/status/statusor.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/program.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// For the layers whose kernels in precision kFast want to know it: their inputs for the same few
// images, drawings and noise, in fp32. The same for equal networks and instruction sets. `forced`
// and errors: as BuildProgram; UNIMPLEMENTED also where a layer's values are so small that 16-bit
// floats would lose them.
absl::StatusOr<Calibration> Calibrate(const Network& network, Isa isa, const KernelEntry* forced);

}  // namespace upscaled::cpu
