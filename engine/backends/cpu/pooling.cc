#include "engine/backends/cpu/pooling.h"

#include <algorithm>

namespace upscaled::cpu {
namespace {

// Adds up interleaved pixels.
void AddImagePixels(const float* src, int channels, int pixels, double* sums) {
  for (int n = 0; n < pixels; ++n, src += channels) {
    for (int c = 0; c < channels; ++c) sums[c] += ChannelSums::Round(src[c]);
  }
}

}  // namespace

void AddToSums(SumPixelsFunction sum_pixels, const Tensor& src, const Rect& part,
               ChannelSums& sums) {
  for (int y = part.y; y < part.bottom(); ++y) {
    for (int x = part.x; x < part.right(); x += ChannelSums::kExactRun) {
      const int pixels = std::min(ChannelSums::kExactRun, part.right() - x);
      for (int plane = 0; plane < src.planes(); ++plane) {
        double runs[kPlaneChannels] = {};
        const float* from = src.At(y, x) + plane * src.plane_stride;
        if (src.pixel_stride == kPlaneChannels) {
          sum_pixels(from, pixels, runs);
        } else {
          AddImagePixels(from, src.pixel_stride, pixels, runs);
        }
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
