// The values of a layer for a mini-batch: pixels laid out as a grid says, a pixel's channels side
// by side.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "engine/base/int_math.h"
#include "engine/train/grid.h"

namespace upscaled::train {

// Pixels of this few channels are not padded.
inline constexpr int kImageChannels = 4;
// Channels as kernels compute them.
inline constexpr int kChannelMultiple = 16;
constexpr int PaddedChannels(int channels) { return RoundUp(channels, kChannelMultiple); }

// An allocator of whole cache lines.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  LineAllocator() = default;
  template <typename Other>
  LineAllocator(const LineAllocator<Other>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* p, size_t) { ::operator delete(p, kAlignment); }
  friend bool operator==(LineAllocator, LineAllocator) { return true; }
};
template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

// Values between the images, and in a pixel's padding channels, are zero and stay so: writers of a
// tensor write only pixels, or zeros.
template <typename Real>
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Grid& grid, int channels)
      : grid_(grid), channels_(channels), values_(grid.places() * stride()) {}

  const Grid& grid() const { return grid_; }
  int channels() const { return channels_; }
  // Values from a pixel to the next.
  int stride() const { return channels_ <= kImageChannels ? channels_ : PaddedChannels(channels_); }
  size_t line_stride() const { return grid_.pitch() * stride(); }
  LineVector<Real>& values() { return values_; }
  const LineVector<Real>& values() const { return values_; }

  // Channel 0 of the first pixel of a line.
  Real* line(int line) { return values_.data() + grid_.Offset(line) * stride(); }
  const Real* line(int line) const { return values_.data() + grid_.Offset(line) * stride(); }
  Real& At(int channel, int line, int x) { return this->line(line)[x * stride() + channel]; }
  Real At(int channel, int line, int x) const { return this->line(line)[x * stride() + channel]; }

 private:
  Grid grid_;
  int channels_ = 0;
  LineVector<Real> values_;
};

}  // namespace upscaled::train
