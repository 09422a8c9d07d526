#include "tests/engine/backends/cuda/device_tensor.h"

#include <cuda_fp16.h>

#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "engine/backends/cuda/tile_place.h"
#include "engine/base/check.h"
#include "engine/model/half.h"

namespace upscaled::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kLanes = cuda::kPlaneChannels;

}  // namespace

DeviceTensor::DeviceTensor(const std::shared_ptr<cuda::Context>& context, Precision precision,
                           const reference::Tensor& values, const Rect& region)
    : context_(context), precision_(precision) {
  Place(values.channels, values.layer, region);
  for (int c = 0; c < cuda::PlaneCount(values.channels) * kLanes; ++c) {
    for (int y = region.y; y < region.bottom(); ++y) {
      for (int x = region.x; x < region.right(); ++x) {
        values_[IndexOf(c, x, y)] = c < values.channels ? values.at(c, x, y) : 0.0f;
      }
    }
  }
  Upload();
}

DeviceTensor::DeviceTensor(const std::shared_ptr<cuda::Context>& context, Precision precision,
                           int channels, Size layer, const Rect& region)
    : context_(context), precision_(precision) {
  Place(channels, layer, region);
  Upload();
}

// The memory's rectangle exceeds the region by a few pixels on every side.
void DeviceTensor::Place(int channels, Size layer, const Rect& region) {
  view_.rect = Expand(region, 3);
  view_.region = region;
  view_.layer = layer;
  view_.channels = channels;
  const size_t planes = cuda::PlaneCount(channels) + 2 * kGuardPlanes;
  values_.assign(planes * view_.rect.Area() * kLanes, kNaN);
}

void DeviceTensor::Upload() {
  std::vector<std::byte> bytes(values_.size() * cuda::StorageBytes(precision_));
  for (size_t i = 0; i < values_.size(); ++i) {
    if (precision_ == Precision::kFast) {
      reinterpret_cast<uint16_t*>(bytes.data())[i] = __half_as_ushort(__float2half(values_[i]));
    } else {
      reinterpret_cast<float*>(bytes.data())[i] = values_[i];
    }
  }
  auto memory = cuda::Upload(context_, bytes, "a test");
  UPSCALED_CHECK(memory.ok());
  memory_ = *std::move(memory);
  view_.data =
      memory_.data() + kGuardPlanes * view_.rect.Area() * kLanes * cuda::StorageBytes(precision_);
}

void DeviceTensor::Download() {
  std::vector<std::byte> bytes(memory_.bytes());
  UPSCALED_CHECK(cudaMemcpy(bytes.data(), memory_.data(), bytes.size(), cudaMemcpyDeviceToHost) ==
                 cudaSuccess);
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = precision_ == Precision::kFast
                     ? HalfToFloat(reinterpret_cast<const uint16_t*>(bytes.data())[i])
                     : reinterpret_cast<const float*>(bytes.data())[i];
  }
}

int DeviceTensor::WrittenOutside() const {
  int inside = 0, written = 0;
  for (const float value : values_) written += !std::isnan(value);
  const Rect& region = view_.region;
  for (int c = 0; c < cuda::PlaneCount(view_.channels) * kLanes; ++c) {
    for (int y = region.y; y < region.bottom(); ++y) {
      for (int x = region.x; x < region.right(); ++x) {
        inside += !std::isnan(values_[IndexOf(c, x, y)]);
      }
    }
  }
  return written - inside;
}

size_t DeviceTensor::IndexOf(int channel, int x, int y) const {
  const int64_t pixel = cuda::PixelIndex(view_, 0, kGuardPlanes + channel / kLanes, x, y);
  return static_cast<size_t>(pixel) * kLanes + channel % kLanes;
}

}  // namespace upscaled::test
