// The choice of a convolution's kernel by measurement.
#pragma once

#include <memory>

#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/graph/kernel_choice.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// `forced` (may be null) where it supports the layers; else what `chooser` (may be null) says,
// where there is a choice (not in fp32, which one kernel computes). null: as ChooseConvKernel.
const ConvKernel* PreferredKernel(const std::shared_ptr<Context>& context, const FusedConv& layers,
                                  Precision precision, const ConvKernel* forced,
                                  KernelChooser* chooser);

}  // namespace upscaled::cuda
