#include "engine/graph/inner_tile.h"

namespace upscaled {

double TileMacs(const Network& network, std::span<const Rect> regions) {
  double macs = 0;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const double taps = static_cast<double>(layer.kernel_px) * layer.kernel_px * layer.in_channels *
                        layer.out_channels;
    if (layer.op == Op::kConv) macs += taps * static_cast<double>(regions[i].Area());
  }
  return macs;
}

}  // namespace upscaled
