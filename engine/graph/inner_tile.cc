#include "engine/graph/inner_tile.h"

#include "engine/model/multiply_adds.h"
#include "engine/model/op.h"

namespace upscaled {

InnerTile InnerTileOf(const Network& network, Size size) {
  return ReadsAnywhere(network) ? WholeImage(size) : InnerTile(size);
}

InnerTile AnywhereTileOf(const Network& network, Size size) {
  return ReadsAnywhere(network) ? WholeImage(size) : AnywhereTile(size);
}

double TileMacs(const Network& network, std::span<const Rect> regions) {
  double macs = 0;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    macs += MultiplyAdds(network.layers[i], static_cast<double>(regions[i].Area()));
  }
  return macs;
}

}  // namespace upscaled
