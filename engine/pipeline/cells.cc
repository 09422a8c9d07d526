#include "engine/pipeline/cells.h"

#include <algorithm>
#include <vector>

#include "engine/base/int_math.h"
#include "engine/graph/pooling.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"

namespace upscaled {

CellAxis::CellAxis(int length, int cell_px)
    : length_(length),
      cell_(std::min(length, cell_px)),
      count_(1 + CeilDiv(length - cell_, cell_px - kOverlapPx)) {}

int CellAxis::Begin(int i) const { return std::min(i * (cell_ - kOverlapPx), length_ - cell_); }

int CellAxis::ResultBegin(int i) const {
  if (i == 0) return 0;
  if (i == count_) return length_;
  const int shared_end = Begin(i - 1) + cell_;
  return (Begin(i) + shared_end - kBlendPx) / 2;
}

double WholeImageBytes(const Network& network, Size image) {
  const std::vector<Layer>& layers = network.layers;
  const std::vector<Size> sizes = LayerSizes(network, image);
  std::vector<size_t> last_reader(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    last_reader[i] = i;
    for (const int input : layers[i].inputs) last_reader[input] = i;
  }
  const auto bytes = [&](size_t i) {
    return static_cast<double>(sizes[i].Area()) * layers[i].out_channels * sizeof(float);
  };
  double held = 0, most = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    held += bytes(i);
    most = std::max(most, held);
    if (last_reader[i] == i) held -= bytes(i);
    std::vector<int> inputs = layers[i].inputs;
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (const int input : inputs) {
      if (last_reader[input] == i) held -= bytes(static_cast<size_t>(input));
    }
  }
  return most;
}

std::optional<CellLattice> CellsOf(const Network& network, Size image, size_t max_whole_bytes) {
  const CellLattice cells(image, network.cell_px);
  if (cells.count() == 1) return std::nullopt;
  if (ReadsAnywhere(network)) return cells;
  if (ListPoolings(network).empty() ||
      WholeImageBytes(network, image) <= static_cast<double>(max_whole_bytes)) {
    return std::nullopt;
  }
  return cells;
}

const char* WhyCells(const Network& network) {
  return ListPoolings(network).empty() ? "may read any pixel of the image"
                                       : "takes sums over the image";
}

}  // namespace upscaled
