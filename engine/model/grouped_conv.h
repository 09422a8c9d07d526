// Grouped convolutions as kernels see them.
#pragma once

#include "engine/model/network.h"

namespace upscaled {

// Each channel of the result is made of one channel of the input, in order.
inline bool IsDepthwise(const Layer& layer) {
  return layer.op == Op::kGroupedConv && layer.groups == layer.in_channels &&
         layer.groups == layer.out_channels;
}

// The same as a kConv, for kernels that know no groups: groups times the weights, most of them 0;
// none of a layer that has none.
Layer AsDenseConv(const Layer& grouped);

}  // namespace upscaled
