#include "engine/backends/cpu/pixels.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/finite.h"

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

void ToFloats(const SampleFunctions& functions, const uint8_t* src, size_t count, float* dst) {
  functions.from_u8(src, count, dst);
}
void ToFloats(const SampleFunctions& functions, const uint16_t* src, size_t count, float* dst) {
  functions.from_u16(src, count, dst);
}
void ToFloats(const SampleFunctions& /*functions*/, const float* src, size_t count, float* dst) {
  std::copy_n(src, count, dst);
}

void ToSamples(const SampleFunctions& functions, const float* src, size_t count, uint8_t* dst) {
  functions.to_u8(src, count, dst);
}
void ToSamples(const SampleFunctions& functions, const float* src, size_t count, uint16_t* dst) {
  functions.to_u16(src, count, dst);
}
void ToSamples(const SampleFunctions& /*functions*/, const float* src, size_t count, float* dst) {
  std::copy_n(src, count, dst);
}

// `count` pixels of `src_channels` and of `dst_channels` values, of which the first three count.
template <typename T>
void CopyRgb(const T* src, int src_channels, int count, T* dst, int dst_channels) {
  for (int n = 0; n < count; ++n) std::copy_n(src + n * src_channels, kRgb, dst + n * dst_channels);
}

// Pixels of more channels than RGB are packed so many at a time.
constexpr int kPackedPx = 64;

template <typename Sample>
void LoadRun(const SampleFunctions& functions, const Sample* src, int channels, int count,
             float* dst) {
  if (channels == kRgb) return ToFloats(functions, src, static_cast<size_t>(count) * kRgb, dst);
  Sample packed[kPackedPx * kRgb];
  for (int n = 0; n < count; n += kPackedPx) {
    const int px = std::min(count - n, kPackedPx);
    CopyRgb(src + static_cast<ptrdiff_t>(n) * channels, channels, px, packed, kRgb);
    ToFloats(functions, packed, px * kRgb, dst + static_cast<ptrdiff_t>(n) * kRgb);
  }
}

template <typename Sample>
void StoreRun(const SampleFunctions& functions, const float* src, int count, Sample* dst,
              int channels) {
  if (channels == kRgb) return ToSamples(functions, src, static_cast<size_t>(count) * kRgb, dst);
  Sample packed[kPackedPx * kRgb];
  for (int n = 0; n < count; n += kPackedPx) {
    const int px = std::min(count - n, kPackedPx);
    ToSamples(functions, src + static_cast<ptrdiff_t>(n) * kRgb, px * kRgb, packed);
    CopyRgb(packed, kRgb, px, dst + static_cast<ptrdiff_t>(n) * channels, channels);
  }
}

}  // namespace

void LoadPixels(const SampleFunctions& functions, const TileTask& task, int pad_px,
                const Rect& rows, const Tensor& dst) {
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
      for (int x = rows.x; x < first; ++x) LoadRun(functions, pixel(0), channels, 1, dst.At(y, x));
      if (first < last) {
        LoadRun(functions, pixel(first - pad_px), channels, last - first, dst.At(y, first));
      }
      for (int x = last; x < rows.right(); ++x) {
        LoadRun(functions, pixel(task.image.width - 1), channels, 1, dst.At(y, x));
      }
    }
  });
}

void StorePixels(const SampleFunctions& functions, const Tensor& src, const Rect& rows,
                 const Rect& result, const MutableImageView& dst) {
  const Rect part = Intersect(rows, result);
  if (part.empty()) return;
  DispatchSampleType(dst.spec.type, [&](auto sample) {
    using Sample = decltype(sample);
    for (int y = part.y; y < part.bottom(); ++y) {
      Sample* row = dst.row_as<Sample>(y - result.y);
      StoreRun(functions, src.At(y, part.x), part.width,
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
