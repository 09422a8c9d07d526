// A kernel's tensor on the device, filled from and compared with the reference's.
#pragma once

#include <memory>
#include <vector>

#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/backends/reference/tensor.h"
#include "engine/base/geometry.h"
#include "engine/model/precision.h"

namespace upscaled::test {

// Lies in the middle of larger memory. The unused part and the values still to compute are NaN.
class DeviceTensor {
 public:
  // An input: `region` of the layer `values`.
  DeviceTensor(const std::shared_ptr<cuda::Context>& context, Precision precision,
               const reference::Tensor& values, const Rect& region);
  // A result: `region` of a layer of this size is to be computed.
  DeviceTensor(const std::shared_ptr<cuda::Context>& context, Precision precision, int channels,
               Size layer, const Rect& region);

  const cuda::TensorView& view() const { return view_; }

  // Copies the device's values back; all earlier launches must be done.
  void Download();
  // The downloaded value.
  float At(int channel, int x, int y) const { return values_[IndexOf(channel, x, y)]; }
  // How many values outside the region are no longer NaN.
  int WrittenOutside() const;

 private:
  // One plane in front of the tensor's and one behind them are no one's.
  static constexpr int kGuardPlanes = 1;

  void Place(int channels, Size layer, const Rect& region);
  void Upload();
  size_t IndexOf(int channel, int x, int y) const;

  std::shared_ptr<cuda::Context> context_;
  Precision precision_;
  cuda::TensorView view_;
  std::vector<float> values_;
  cuda::DeviceMemory memory_;
};

}  // namespace upscaled::test
