#include "tests/engine/backends/cuda/emulated_tensor.h"

#include <cmath>
#include <cstring>

#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/model/half.h"

namespace upscaled::test {
namespace {

size_t ValueBytes(Precision precision) { return precision == Precision::kFast ? 2 : 4; }

}  // namespace

EmulatedTensor::EmulatedTensor(int channels, Size layer, const Rect& rect, const Rect& region,
                               int tiles, Precision precision)
    : precision_(precision), tiles_(tiles) {
  const int64_t pixels = rect.Area() * cuda::PlaneCount(channels);
  bytes_.resize(tiles * pixels * cuda::kPlaneChannels * ValueBytes(precision), 0xff);
  view_ = {bytes_.data(), rect, region, layer, channels, pixels};
}

size_t EmulatedTensor::IndexOf(int tile, int channel, int x, int y) const {
  return cuda::PixelIndex(view_, tile, channel / cuda::kPlaneChannels, x, y) *
             cuda::kPlaneChannels +
         channel % cuda::kPlaneChannels;
}

float EmulatedTensor::Get(size_t index) const {
  if (precision_ == Precision::kFast) {
    uint16_t half;
    std::memcpy(&half, &bytes_[index * sizeof(half)], sizeof(half));
    return HalfToFloat(half);
  }
  float value;
  std::memcpy(&value, &bytes_[index * sizeof(value)], sizeof(value));
  return value;
}

void EmulatedTensor::Set(size_t index, float value) {
  if (precision_ == Precision::kFast) {
    const uint16_t half = cuda::FloatToHalfBits(value);
    std::memcpy(&bytes_[index * sizeof(half)], &half, sizeof(half));
  } else {
    std::memcpy(&bytes_[index * sizeof(value)], &value, sizeof(value));
  }
}

void EmulatedTensor::Fill(int tile, const reference::Tensor& values, std::mt19937& random) {
  std::uniform_real_distribution<float> anything(-100.0f, 100.0f);
  const Rect& region = view_.region;
  const int lanes = cuda::PlaneCount(view_.channels) * cuda::kPlaneChannels;
  for (int c = 0; c < lanes; ++c) {
    for (int y = region.y; y < region.bottom(); ++y) {
      for (int x = region.x; x < region.right(); ++x) {
        Set(IndexOf(tile, c, x, y), c < view_.channels ? values.at(c, x, y) : anything(random));
      }
    }
  }
}

float EmulatedTensor::At(int tile, int channel, int x, int y) const {
  return Get(IndexOf(tile, channel, x, y));
}

int EmulatedTensor::WrittenOutside() const {
  int written = 0;
  const Rect& rect = view_.rect;
  for (int tile = 0; tile < tiles_; ++tile) {
    for (int c = 0; c < cuda::PlaneCount(view_.channels) * cuda::kPlaneChannels; ++c) {
      for (int y = rect.y; y < rect.bottom(); ++y) {
        for (int x = rect.x; x < rect.right(); ++x) {
          const bool inside = cuda::IsInside(view_.region, x, y);
          if (!inside && !std::isnan(At(tile, c, x, y))) ++written;
        }
      }
    }
  }
  return written;
}

void RoundValues(Precision precision, std::vector<float>& values) {
  if (precision != Precision::kFast) return;
  for (float& value : values) value = HalfToFloat(cuda::FloatToHalfBits(value));
}

}  // namespace upscaled::test
