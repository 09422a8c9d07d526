// The values of a layer for a mini-batch: a row a channel, laid out as a grid says.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/train/grid.h"

namespace upscaled::train {

// What lies between the images is zero and stays so: whoever writes a tensor writes pixels alone,
// or zeros.
template <typename Real>
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Grid& grid, int channels)
      : grid_(grid), channels_(channels), values_(grid.row_values() * channels) {}

  const Grid& grid() const { return grid_; }
  int channels() const { return channels_; }
  size_t row_values() const { return grid_.row_values(); }
  std::vector<Real>& values() { return values_; }
  const std::vector<Real>& values() const { return values_; }

  Real* row(int channel) { return values_.data() + grid_.row_values() * channel; }
  const Real* row(int channel) const { return values_.data() + grid_.row_values() * channel; }
  // The size.width pixels of a line.
  Real* line(int channel, int line) { return row(channel) + grid_.Offset(line); }
  const Real* line(int channel, int line) const { return row(channel) + grid_.Offset(line); }

 private:
  Grid grid_;
  int channels_ = 0;
  std::vector<Real> values_;
};

}  // namespace upscaled::train
