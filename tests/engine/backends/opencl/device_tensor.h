// A kernel's tensor on the device, filled from and compared with the reference's.
#pragma once

#include <vector>

#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/tensor.h"
#include "engine/backends/reference/tensor.h"
#include "engine/base/geometry.h"

namespace upscaled::test {

// fp32. The unused part and the values still to compute are NaN.
class DeviceTensor {
 public:
  // An input: `rect` of the layer `values`, zeros where it exceeds the layer.
  DeviceTensor(const opencl::Context& context, const reference::Tensor& values, const Rect& rect);
  // A result: room for all of a layer of this size, to compute `region`.
  DeviceTensor(const opencl::Context& context, int channels, Size layer, const Rect& region);

  const opencl::Tensor& tensor() const { return tensor_; }

  // Copies the device's values back, after all earlier work of `queue`.
  void Download(const cl::CommandQueue& queue);
  // The downloaded value.
  float At(int channel, int x, int y) const { return values_[IndexOf(channel, x, y)]; }
  // How many values outside the region are no longer NaN.
  int WrittenOutside() const;
  const std::vector<float>& values() const { return values_; }

 private:
  size_t IndexOf(int channel, int x, int y) const;
  void Upload(const opencl::Context& context);

  opencl::Tensor tensor_;
  std::vector<float> values_;
};

}  // namespace upscaled::test
