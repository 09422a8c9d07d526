// Grouped convolutions as kernels see them.
#pragma once

#include "engine/model/network.h"

namespace upscaled {

// Each channel of the result is made of one channel of the input, in order.
inline bool IsDepthwise(const Layer& layer) {
  return layer.op == Op::kGroupedConv && layer.groups == layer.in_channels &&
         layer.groups == layer.out_channels;
}

// The same as a kConv, for kernels without groups: groups times the weights, most of them 0; empty
// for a layer without weights.
Layer AsDenseConv(const Layer& grouped);

}  // namespace upscaled
