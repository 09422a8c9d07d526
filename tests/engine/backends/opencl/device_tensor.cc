#include "tests/engine/backends/opencl/device_tensor.h"

#include <cmath>
#include <limits>

#include "engine/base/check.h"

namespace upscaled::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

DeviceTensor::DeviceTensor(const opencl::Context& context, const reference::Tensor& values,
                           const Rect& rect)
    : values_(opencl::TensorValues(rect, values.channels), kNaN) {
  const Rect layer{0, 0, values.layer.width, values.layer.height};
  tensor_ = {{}, rect, Intersect(rect, layer), values.layer, values.channels};
  for (int c = 0; c < tensor_.planes() * opencl::kPlaneChannels; ++c) {
    for (int y = rect.y; y < rect.bottom(); ++y) {
      for (int x = rect.x; x < rect.right(); ++x) {
        const bool inside = c < values.channels && layer.Contains({x, y, 1, 1});
        values_[IndexOf(c, x, y)] = inside ? values.at(c, x, y) : 0.0f;
      }
    }
  }
  Upload(context);
}

DeviceTensor::DeviceTensor(const opencl::Context& context, int channels, Size layer,
                           const Rect& region) {
  const Rect whole{0, 0, layer.width, layer.height};
  values_.assign(opencl::TensorValues(whole, channels), kNaN);
  tensor_ = {{}, whole, region, layer, channels};
  Upload(context);
}

void DeviceTensor::Upload(const opencl::Context& context) {
  cl_int error = CL_SUCCESS;
  tensor_.buffer = cl::Buffer(context.handle, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                              values_.size() * sizeof(float), values_.data(), &error);
  UPSCALED_CHECK(error == CL_SUCCESS);
}

void DeviceTensor::Download(const cl::CommandQueue& queue) {
  const cl_int error = queue.enqueueReadBuffer(tensor_.buffer, CL_TRUE, 0,
                                               values_.size() * sizeof(float), values_.data());
  UPSCALED_CHECK(error == CL_SUCCESS);
}

int DeviceTensor::WrittenOutside() const {
  int inside = 0, written = 0;
  for (const float value : values_) written += !std::isnan(value);
  const Rect& region = tensor_.region;
  for (int c = 0; c < tensor_.planes() * opencl::kPlaneChannels; ++c) {
    for (int y = region.y; y < region.bottom(); ++y) {
      for (int x = region.x; x < region.right(); ++x) {
        inside += !std::isnan(values_[IndexOf(c, x, y)]);
      }
    }
  }
  return written - inside;
}

size_t DeviceTensor::IndexOf(int channel, int x, int y) const {
  const Rect& rect = tensor_.rect;
  const size_t row = size_t{1} * channel / opencl::kPlaneChannels * rect.height + (y - rect.y);
  return (row * rect.width + (x - rect.x)) * opencl::kPlaneChannels +
         channel % opencl::kPlaneChannels;
}

}  // namespace upscaled::test
