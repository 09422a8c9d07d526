#include "engine/backends/layer_profile.h"

#include "absl/strings/str_cat.h"
#include "engine/model/multiply_adds.h"

namespace upscaled {
namespace {

double WeightCount(const Layer& layer) {
  if (MultiplyAdds(layer, 1) == 0) return 0;
  return 1.0 * layer.kernel_px * layer.kernel_px * layer.in_channels * layer.out_channels;
}

}  // namespace

LayerProfile DescribeLayer(const Network& network, size_t layer, std::span<const Rect> regions,
                           size_t value_bytes) {
  const Layer& described = network.layers[layer];
  const Rect& region = regions[layer];
  double values = static_cast<double>(region.Area()) * described.out_channels;
  for (const int input : described.inputs) {
    values += static_cast<double>(regions[input].Area()) * network.layers[input].out_channels;
  }
  return {.layer = described.name,
          .shape = absl::StrCat(described.in_channels, "-", described.out_channels, " ",
                                described.kernel_px, "x", described.kernel_px, " ", region.width,
                                "x", region.height),
          .operations = 2 * MultiplyAdds(described, static_cast<double>(region.Area())),
          .bytes = (values + WeightCount(described)) * static_cast<double>(value_bytes)};
}

}  // namespace upscaled
