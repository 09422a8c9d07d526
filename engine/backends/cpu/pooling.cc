#include "engine/backends/cpu/pooling.h"

#include <algorithm>

namespace upscaled::cpu {
namespace {

// Adds up pixels of `kStride` channels; of more than 4 exactly kPlaneChannels.
template <int kStride>
void AddPixels(const float* src, int pixels, double* runs) {
  for (int n = 0; n < pixels; ++n, src += kStride) {
    for (int c = 0; c < kStride; ++c) runs[c] += ChannelSums::Round(src[c]);
  }
}

void AddPixelsOf(int stride, const float* src, int pixels, double* runs) {
  switch (stride) {
    case 1:
      return AddPixels<1>(src, pixels, runs);
    case 2:
      return AddPixels<2>(src, pixels, runs);
    case 3:
      return AddPixels<3>(src, pixels, runs);
    case 4:
      return AddPixels<4>(src, pixels, runs);
    default:
      return AddPixels<kPlaneChannels>(src, pixels, runs);
  }
}

}  // namespace

void AddToSums(const Tensor& src, const Rect& part, ChannelSums& sums) {
  for (int y = part.y; y < part.bottom(); ++y) {
    for (int x = part.x; x < part.right(); x += ChannelSums::kExactRun) {
      const int pixels = std::min(ChannelSums::kExactRun, part.right() - x);
      for (int plane = 0; plane < src.planes(); ++plane) {
        double runs[kPlaneChannels] = {};
        AddPixelsOf(src.pixel_stride, src.At(y, x) + plane * src.plane_stride, pixels, runs);
        const int first = plane * kPlaneChannels;
        const int channels = std::min(src.pixel_stride, src.channels - first);
        for (int c = 0; c < channels; ++c) sums.Add(first + c, runs[c]);
      }
    }
  }
}

void LoadMeans(const ChannelMeans& means, const Tensor& dst) {
  for (int plane = 0; plane < dst.planes(); ++plane) {
    const int first = plane * kPlaneChannels;
    const int channels = std::min(dst.pixel_stride, dst.channels - first);
    float* pixel = dst.At(0, 0) + plane * dst.plane_stride;
    std::fill_n(pixel, dst.pixel_stride, 0.0f);
    std::copy_n(means.begin() + first, channels, pixel);
  }
}

}  // namespace upscaled::cpu
