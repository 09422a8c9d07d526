// A kernel's tensor in a poisoned block of memory, to feed kernels and to see where they write.
#pragma once

#include <vector>

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/backends/reference/tensor.h"
#include "engine/base/geometry.h"

namespace upscaled::test {

// The whole layer in one ring, with `margin` zero columns next to it and the zero row; everything
// else, and a source's values beyond those, is NaN, which any use of it would spread.
class PlacedTensor {
 public:
  enum class Kind {
    kPlanes,       // planes of floats, or one plane for an image
    kInterleaved,  // one plane whatever the channel count
    kHalves,       // planes of halves
  };
  PlacedTensor(int channels, Size layer, cpu::Margin margin, Kind kind = Kind::kPlanes);

  const cpu::Tensor& tensor() const { return tensor_; }
  // Copies `values` (of the whole layer) in; channels beyond the last become zero. Not of halves,
  // nor is At.
  void Fill(const reference::Tensor& values);
  float At(int channel, int x, int y) const { return *Address(channel, x, y); }

  // The number of values outside `rows` changed since its construction.
  int WrittenOutside(const Rect& rows) const;

 private:
  const float* Address(int channel, int x, int y) const;

  cpu::Tensor tensor_;
  cpu::HugeBuffer storage_;
  std::vector<float> original_;
};

}  // namespace upscaled::test
