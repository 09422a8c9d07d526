#include "engine/backends/cpu/pixels.h"

#include <algorithm>
#include <cstdint>

#include "engine/backends/overflow.h"

namespace upscaled::cpu {
namespace {

// Calls `function` with the conversion of the type.
template <typename Function>
void DispatchSampleType(SampleType type, const SampleConversions& conversions, Function function) {
  switch (type) {
    case SampleType::kU8:
      return function(conversions.u8);
    case SampleType::kU16:
      return function(conversions.u16);
    case SampleType::kF32:
      return function(conversions.f32);
  }
}

// `count` pixels of `src_channels` and of `dst_channels` values, of which the first three count.
template <typename T>
void CopyRgb(const T* src, int src_channels, int count, T* dst, int dst_channels) {
  for (int n = 0; n < count; ++n) {
    std::copy_n(src + n * src_channels, kRgbChannels, dst + n * dst_channels);
  }
}

// Pixels of more channels than RGB are packed this many at a time.
constexpr int kPackedPx = 64;

template <typename Sample>
void LoadRun(const SampleConversion<Sample>& conversion, const Sample* src, int channels, int count,
             float* dst) {
  if (channels == kRgbChannels) {
    return conversion.from(src, static_cast<size_t>(count) * kRgbChannels, dst);
  }
  Sample packed[kPackedPx * kRgbChannels];
  for (int n = 0; n < count; n += kPackedPx) {
    const int px = std::min(count - n, kPackedPx);
    CopyRgb(src + static_cast<ptrdiff_t>(n) * channels, channels, px, packed, kRgbChannels);
    conversion.from(packed, px * kRgbChannels, dst + static_cast<ptrdiff_t>(n) * kRgbChannels);
  }
}

template <typename Sample>
void StoreRun(const SampleConversion<Sample>& conversion, const float* src, int count, Sample* dst,
              int channels) {
  if (channels == kRgbChannels) {
    return conversion.to(src, static_cast<size_t>(count) * kRgbChannels, dst);
  }
  Sample packed[kPackedPx * kRgbChannels];
  for (int n = 0; n < count; n += kPackedPx) {
    const int px = std::min(count - n, kPackedPx);
    conversion.to(src + static_cast<ptrdiff_t>(n) * kRgbChannels, px * kRgbChannels, packed);
    CopyRgb(packed, kRgbChannels, px, dst + static_cast<ptrdiff_t>(n) * channels, channels);
  }
}

}  // namespace

void LoadPixels(const SampleConversions& conversions, const TileTask& task, int pad_px,
                const Rect& rows, const Tensor& dst) {
  const Size image = task.plan->image;
  // Columns of the image: before it, in it and behind it.
  const int first = std::clamp(pad_px, rows.x, rows.right());
  const int last = std::clamp(pad_px + image.width, rows.x, rows.right());
  const int channels = task.src.spec.channels;
  DispatchSampleType(
      task.src.spec.type, conversions,
      [&]<typename Sample>(const SampleConversion<Sample>& conversion) {
        for (int y = rows.y; y < rows.bottom(); ++y) {
          const int image_y = std::clamp(y - pad_px, 0, image.height - 1);
          const Sample* src = task.src.row_as<Sample>(image_y - task.src_rect.y);
          const auto pixel = [&](int image_x) {
            return src + static_cast<ptrdiff_t>(image_x - task.src_rect.x) * channels;
          };
          for (int x = rows.x; x < first; ++x) {
            LoadRun(conversion, pixel(0), channels, 1, dst.At(y, x));
          }
          if (first < last) {
            LoadRun(conversion, pixel(first - pad_px), channels, last - first, dst.At(y, first));
          }
          for (int x = last; x < rows.right(); ++x) {
            LoadRun(conversion, pixel(image.width - 1), channels, 1, dst.At(y, x));
          }
        }
      });
}

void StorePixels(const SampleConversions& conversions, const Tensor& src, const Rect& rows,
                 const Rect& result, const MutableImageView& dst) {
  const Rect part = Intersect(rows, result);
  if (part.empty()) return;
  DispatchSampleType(
      dst.spec.type, conversions, [&]<typename Sample>(const SampleConversion<Sample>& conversion) {
        for (int y = part.y; y < part.bottom(); ++y) {
          Sample* row = dst.row_as<Sample>(y - result.y);
          StoreRun(conversion, src.At(y, part.x), part.width,
                   row + static_cast<ptrdiff_t>(part.x - result.x) * dst.spec.channels,
                   dst.spec.channels);
        }
      });
}

void FindOverflowed(const Tensor& src, const Rect& rows, std::vector<Rect>& runs) {
  for (int y = rows.y; y < rows.bottom(); ++y) {
    AppendOverflowed(src.At(y, rows.x), src.channels, rows.width, rows.x, y, runs);
  }
}

}  // namespace upscaled::cpu
