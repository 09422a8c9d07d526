// Tensors and images of emulated kernels.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/backends/reference/tensor.h"
#include "engine/base/geometry.h"
#include "engine/model/precision.h"

namespace upscaled::test {

// A tensor with NaN in all values no kernel may read. Those no kernel may write stay NaN.
class EmulatedTensor {
 public:
  // A result: room for `rect` of a layer of this size, to compute `region`, for each tile of a
  // batch.
  EmulatedTensor(int channels, Size layer, const Rect& rect, const Rect& region, int tiles,
                 Precision precision);

  // An input: `region` of the tile is read; lanes beyond the last channel hold anything.
  void Fill(int tile, const reference::Tensor& values, std::mt19937& random);

  const cuda::TensorView& view() const { return view_; }
  float At(int tile, int channel, int x, int y) const;
  // How many values outside of the region are no longer NaN.
  int WrittenOutside() const;
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  size_t IndexOf(int tile, int channel, int x, int y) const;
  float Get(size_t index) const;
  void Set(size_t index, float value);

  Precision precision_;
  int tiles_;
  std::vector<uint8_t> bytes_;
  cuda::TensorView view_;
};

// To the precision's nearest values.
void RoundValues(Precision precision, std::vector<float>& values);

}  // namespace upscaled::test
