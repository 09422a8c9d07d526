// The choice of a layer's kernel.
#pragma once

#include <string>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/kernel_choice.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// What measured times hold for: the CPU's model and the instruction set.
std::string DeviceName(Isa isa);

// `forced` (may be null) where it supports the layer; else what `chooser` (may be null) says, where
// there is a choice; else the first of the list. null: no kernel supports the layer.
const KernelInfo* ChooseKernel(const Layer& layer, const KernelInfo* forced, Isa isa,
                               KernelChooser* chooser);

}  // namespace upscaled::cpu
