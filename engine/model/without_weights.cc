#include "engine/model/without_weights.h"

namespace upscaled {

Layer WithoutWeights(const Layer& layer) {
  Layer copy;
  copy.op = layer.op;
  copy.name = layer.name;
  copy.inputs = layer.inputs;
  copy.out_channels = layer.out_channels;
  copy.in_channels = layer.in_channels;
  copy.kernel_px = layer.kernel_px;
  copy.stride_px = layer.stride_px;
  copy.groups = layer.groups;
  copy.padding_px = layer.padding_px;
  copy.factor = layer.factor;
  copy.crop_px = layer.crop_px;
  copy.residual_factor = layer.residual_factor;
  copy.first_channel = layer.first_channel;
  copy.centred = layer.centred;
  copy.epsilon = layer.epsilon;
  copy.pad_mode = layer.pad_mode;
  copy.pad_value = layer.pad_value;
  copy.bias = layer.bias;
  copy.activation = layer.activation;
  copy.slope = layer.slope;
  copy.clip_min = layer.clip_min;
  copy.clip_max = layer.clip_max;
  return copy;
}

Network WithoutWeights(const Network& network) {
  Network copy;
  copy.name = network.name;
  copy.architecture = network.architecture;
  copy.input_channels = network.input_channels;
  copy.scale = network.scale;
  copy.pad_px = network.pad_px;
  copy.align_px = network.align_px;
  for (const Layer& layer : network.layers) copy.layers.push_back(WithoutWeights(layer));
  return copy;
}

}  // namespace upscaled
