// Layers of images on the device, as halves: cheap to fill and to compare byte by byte.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/base/check.h"
#include "engine/base/geometry.h"

namespace upscaled::test {

using Halves = std::vector<uint16_t>;

// A whole layer.
class LargeTensor {
 public:
  LargeTensor(const std::shared_ptr<cuda::Context>& context, int channels, Size size)
      : halves_(size_t{1} * cuda::PlaneCount(channels) * cuda::kPlaneChannels * size.Area()) {
    auto memory = cuda::AllocateDevice(context, Bytes(), "a large layer");
    UPSCALED_CHECK(memory.ok());
    memory_ = *std::move(memory);
    const Rect whole{0, 0, size.width, size.height};
    view_ = {.data = memory_.data(),
             .rect = whole,
             .region = whole,
             .layer = size,
             .channels = channels};
  }

  // Its part in use, for reads or writes.
  cuda::TensorView View(const Rect& region) const {
    cuda::TensorView view = view_;
    view.region = region;
    return view;
  }

  // Multiples of 1/64 between -2 and 2.
  void Fill(std::mt19937& random) {
    Halves values(256);
    for (int i = 0; i < 256; ++i) values[i] = cuda::FloatToHalfBits((i - 128) / 64.0f);
    for (size_t i = 0; i < halves_.size(); i += 4) {  // planes have 8 lanes
      const uint32_t bits = random();
      for (int k = 0; k < 4; ++k) halves_[i + k] = values[bits >> (8 * k) & 0xff];
    }
    Copy(memory_.data(), halves_.data());
  }
  // All of it is NaN.
  void Clear() {
    UPSCALED_CHECK(cudaMemsetAsync(memory_.data(), 0xff, Bytes(), nullptr) == cudaSuccess);
  }
  const Halves& Download() {
    Copy(halves_.data(), memory_.data());
    return halves_;
  }

 private:
  size_t Bytes() const { return halves_.size() * sizeof(uint16_t); }
  void Copy(void* to, const void* from) const {
    UPSCALED_CHECK(cudaMemcpy(to, from, Bytes(), cudaMemcpyDefault) == cudaSuccess);
  }

  Halves halves_;
  cuda::DeviceMemory memory_;
  cuda::TensorView view_;
};

}  // namespace upscaled::test
