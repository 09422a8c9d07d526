#include "engine/backends/cpu/pixels.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/base/finite.h"
#include "engine/image/full_scale.h"

namespace upscaled::cpu {
namespace {

constexpr int kRgb = 3;

template <typename Function>
void DispatchSampleType(SampleType type, Function function) {
  switch (type) {
    case SampleType::kU8:
      return function(uint8_t{});
    case SampleType::kU16:
      return function(uint16_t{});
    case SampleType::kF32:
      return function(float{});
  }
}

// Split by channel count, so that RGB is one contiguous loop.
template <typename Sample>
void LoadRun(const Sample* src, int channels, int count, float* dst) {
  constexpr float kScale = 1.0f / kFullScale<Sample>;
  if (channels == kRgb) {
    for (int i = 0; i < count * kRgb; ++i) dst[i] = static_cast<float>(src[i]) * kScale;
    return;
  }
  for (int n = 0; n < count; ++n) {
    for (int c = 0; c < kRgb; ++c) {
      dst[n * kRgb + c] = static_cast<float>(src[n * channels + c]) * kScale;
    }
  }
}

template <typename Sample>
Sample ToSample(float v) {
  if constexpr (std::is_same_v<Sample, float>) {
    return v;
  } else {
    // In this order NaN becomes 0; clamped before it is scaled, GCC would branch on each value.
    constexpr float kEnd = kFullScale<Sample> + 0.5f;
    v = v * kFullScale<Sample> + 0.5f;
    v = v > 0.5f ? v : 0.5f;
    v = v < kEnd ? v : kEnd;
    return static_cast<Sample>(static_cast<int>(v));
  }
}

template <typename Sample>
void StoreRun(const float* src, int count, Sample* dst, int channels) {
  if (channels == kRgb) {
    for (int i = 0; i < count * kRgb; ++i) dst[i] = ToSample<Sample>(src[i]);
    return;
  }
  for (int n = 0; n < count; ++n) {
    for (int c = 0; c < kRgb; ++c) dst[n * channels + c] = ToSample<Sample>(src[n * kRgb + c]);
  }
}

}  // namespace

void LoadPixels(const TileTask& task, int pad_px, const Rect& rows, const Tensor& dst) {
  // Columns of the picture: before it, in it and behind it.
  const int first = std::clamp(pad_px, rows.x, rows.right());
  const int last = std::clamp(pad_px + task.image.width, rows.x, rows.right());
  const int channels = task.src.spec.channels;
  DispatchSampleType(task.src.spec.type, [&](auto sample) {
    using Sample = decltype(sample);
    for (int y = rows.y; y < rows.bottom(); ++y) {
      const int picture_y = std::clamp(y - pad_px, 0, task.image.height - 1);
      const Sample* src = task.src.row_as<Sample>(picture_y - task.src_rect.y);
      const auto pixel = [&](int picture_x) {
        return src + static_cast<ptrdiff_t>(picture_x - task.src_rect.x) * channels;
      };
      for (int x = rows.x; x < first; ++x) LoadRun(pixel(0), channels, 1, dst.At(y, x));
      if (first < last) {
        LoadRun(pixel(first - pad_px), channels, last - first, dst.At(y, first));
      }
      for (int x = last; x < rows.right(); ++x) {
        LoadRun(pixel(task.image.width - 1), channels, 1, dst.At(y, x));
      }
    }
  });
}

void StorePixels(const Tensor& src, const Rect& rows, const Rect& result,
                 const MutableImageView& dst) {
  const Rect part = Intersect(rows, result);
  if (part.empty()) return;
  DispatchSampleType(dst.spec.type, [&](auto sample) {
    using Sample = decltype(sample);
    for (int y = part.y; y < part.bottom(); ++y) {
      Sample* row = dst.row_as<Sample>(y - result.y);
      StoreRun(src.At(y, part.x), part.width,
               row + static_cast<ptrdiff_t>(part.x - result.x) * dst.spec.channels,
               dst.spec.channels);
    }
  });
}

void FindLost(const Tensor& src, const Rect& rows, std::vector<Rect>& runs) {
  const int channels = src.channels;
  for (int y = rows.y; y < rows.bottom(); ++y) {
    const float* row = src.At(y, rows.x);
    if (AllFinite(row, rows.width * channels)) continue;
    for (int x = 0; x < rows.width; ++x) {
      if (AllFinite(row + static_cast<ptrdiff_t>(x) * channels, channels)) continue;
      const bool goes_on = !runs.empty() && runs.back().y == y && runs.back().right() == rows.x + x;
      if (!goes_on) runs.push_back({rows.x + x, y, 0, 1});
      ++runs.back().width;
    }
  }
}

}  // namespace upscaled::cpu
