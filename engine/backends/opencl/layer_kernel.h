// The interface of this backend's kernels: one layer bound to its weights on the device.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/backends/opencl/tensor.h"

namespace upscaled::opencl {

// How a kernel is launched. All of them give the same bits.
struct LaunchConfig {
  int pixels = 1;           // in a row, by one work-item
  WorkSize group{1, 1, 1};  // work-items of a group: along x, y and planes

  friend bool operator==(const LaunchConfig&, const LaunchConfig&) = default;
};

// "4 pixels, groups 8x1x4"
std::string Describe(const LaunchConfig& config);

// Immutable, thread safe.
class LayerKernel {
 public:
  virtual ~LayerKernel() = default;

  // Enqueues what computes dst.region. The inputs hold what this reads, see LayerRects.
  virtual absl::Status Enqueue(Launcher& launcher, std::span<const Tensor> src,
                               const Tensor& dst) const = 0;
  // Pixels are computed in blocks of this size from the layer's origin.
  virtual int block_px() const { return 1; }
  virtual size_t WeightBytes() const = 0;
  virtual LaunchConfig config() const = 0;
};

}  // namespace upscaled::opencl
