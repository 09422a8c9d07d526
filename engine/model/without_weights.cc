#include "engine/model/without_weights.h"

#include <utility>
#include <vector>

namespace upscaled {

// Both take all fields by place: one added to the struct does not compile until it is here.

Layer WithoutWeights(const Layer& layer) {
  const auto& [op, name, inputs, out_channels, in_channels, kernel_px, stride_px, groups, window_x,
               window_y, overlap_px, padding_px, factor, crop_px, residual_factor, first_channel,
               centred, epsilon, pad_mode, pad_value, weights, bias, activation, slope, clip_min,
               clip_max] = layer;
  return {op,          name,      inputs,          out_channels,
          in_channels, kernel_px, stride_px,       groups,
          window_x,    window_y,  overlap_px,      padding_px,
          factor,      crop_px,   residual_factor, first_channel,
          centred,     epsilon,   pad_mode,        pad_value,
          {},          bias,      activation,      slope,
          clip_min,    clip_max};
}

Network WithoutWeights(const Network& network) {
  const auto& [name, architecture, input_channels, layers, scale, pad_px, align_px, cell_px] =
      network;
  std::vector<Layer> light;
  for (const Layer& layer : layers) light.push_back(WithoutWeights(layer));
  return {name, architecture, input_channels, std::move(light), scale, pad_px, align_px, cell_px};
}

}  // namespace upscaled
