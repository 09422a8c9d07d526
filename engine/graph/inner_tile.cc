#include "engine/graph/inner_tile.h"

#include "engine/model/multiply_adds.h"

namespace upscaled {

double TileMacs(const Network& network, std::span<const Rect> regions) {
  double macs = 0;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    macs += MultiplyAdds(network.layers[i], static_cast<double>(regions[i].Area()));
  }
  return macs;
}

}  // namespace upscaled
