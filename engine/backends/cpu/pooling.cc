#include "engine/backends/cpu/pooling.h"

#include <algorithm>
#include <cstdint>

#include "engine/backends/overflow.h"
#include "engine/base/finite.h"

namespace upscaled::cpu {
namespace {

// Adds up interleaved pixels.
void AddImagePixels(const float* src, int channels, int pixels, double* sums) {
  for (int n = 0; n < pixels; ++n, src += channels) {
    for (int c = 0; c < channels; ++c) sums[c] += ChannelSums::Round(src[c]);
  }
}

bool AllFiniteHalves(const uint16_t* halves, int count) {
  constexpr uint16_t kExponent = 0x7c00;
  uint16_t found = 0;
  for (int i = 0; i < count; ++i) found |= (halves[i] & kExponent) == kExponent ? 1 : 0;
  return found == 0;
}

bool AllFinite(const Tensor& src, int y, int x, int pixels) {
  for (int plane = 0; plane < src.planes(); ++plane) {
    const float* from = src.At(y, x) + plane * src.plane_stride;
    const bool finite = src.half ? AllFiniteHalves(reinterpret_cast<const uint16_t*>(from),
                                                   pixels * kHalfPlaneChannels)
                                 : upscaled::AllFinite(from, pixels * src.pixel_stride);
    if (!finite) return false;
  }
  return true;
}

}  // namespace

void AddToSums(const PooledSums& pooled_sums, const Tensor& src, const Rect& part,
               ChannelSums& sums) {
  const int plane_channels = src.half ? kHalfPlaneChannels : src.pixel_stride;
  for (int y = part.y; y < part.bottom(); ++y) {
    for (int x = part.x; x < part.right(); x += ChannelSums::kExactRun) {
      const int pixels = std::min(ChannelSums::kExactRun, part.right() - x);
      for (int plane = 0; plane < src.planes(); ++plane) {
        double runs[kHalfPlaneChannels] = {};
        const float* from = src.At(y, x) + plane * src.plane_stride;
        if (src.half) {
          pooled_sums.halves(from, pixels, runs);
        } else if (src.pixel_stride == kPlaneChannels) {
          pooled_sums.floats(from, pixels, runs);
        } else {
          AddImagePixels(from, src.pixel_stride, pixels, runs);
        }
        const int first = plane * plane_channels;
        const int channels = std::min(plane_channels, src.channels - first);
        for (int c = 0; c < channels; ++c) sums.Add(first + c, runs[c]);
      }
    }
  }
}

void FindNonFinite(const Tensor& src, const Rect& part, std::vector<Rect>& runs) {
  for (int y = part.y; y < part.bottom(); ++y) {
    if (AllFinite(src, y, part.x, part.width)) continue;
    for (int x = part.x; x < part.right(); ++x) {
      if (!AllFinite(src, y, x, 1)) AppendToRuns(x, y, runs);
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
