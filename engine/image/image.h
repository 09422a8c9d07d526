// Pixels in memory: an owning Image and borrowed, strided views of it.
//
// Samples are interleaved: a row is `width_px` pixels of `channels` samples of one type. Channels
// mean, by count: 1 gray, 2 gray + alpha, 3 RGB, 4 RGBA (alpha is never premultiplied). Integer
// samples span 0..255 or 0..65535 in native byte order; float samples span 0..1, and may exceed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/base/aligned_buffer.h"
#include "engine/base/geometry.h"

namespace upscaled {

enum class SampleType : uint8_t { kU8, kU16, kF32 };

constexpr size_t SampleBytes(SampleType type) {
  return type == SampleType::kU8 ? 1 : type == SampleType::kU16 ? 2 : 4;
}

inline constexpr int kRgbChannels = 3;

// The size and samples of an image, without its pixels.
struct ImageSpec {
  int width_px = 0;
  int height_px = 0;
  int channels = 0;
  SampleType type = SampleType::kU8;

  Size size() const { return {width_px, height_px}; }
  bool has_alpha() const { return channels == 2 || channels == 4; }
  size_t pixel_bytes() const { return channels * SampleBytes(type); }
  size_t row_bytes() const { return width_px * pixel_bytes(); }
  friend bool operator==(const ImageSpec&, const ImageSpec&) = default;
};

// A borrowed view; `Byte` is uint8_t or const uint8_t. Rows lie `stride_bytes` apart.
template <typename Byte>
struct BasicImageView {
  Byte* data = nullptr;
  ImageSpec spec;
  ptrdiff_t stride_bytes = 0;

  BasicImageView() = default;
  BasicImageView(Byte* data, const ImageSpec& spec, ptrdiff_t stride_bytes)
      : data(data), spec(spec), stride_bytes(stride_bytes) {}
  // A mutable view converts to a const one.
  template <typename Other>
  requires(!std::is_same_v<Other, Byte> && std::is_convertible_v<Other*, Byte*>)
      BasicImageView(const BasicImageView<Other>& o)  // NOLINT: implicit on purpose
      : data(o.data), spec(o.spec), stride_bytes(o.stride_bytes) {}

  int width_px() const { return spec.width_px; }
  int height_px() const { return spec.height_px; }
  Byte* row(int y) const { return data + y * stride_bytes; }
  template <typename T>
  auto* row_as(int y) const {
    if constexpr (std::is_const_v<Byte>)
      return reinterpret_cast<const T*>(row(y));
    else
      return reinterpret_cast<T*>(row(y));
  }
  // The part of the view under `r`. `r` must lie inside it.
  BasicImageView Crop(const Rect& r) const {
    BasicImageView view = *this;
    view.data += r.y * stride_bytes + r.x * static_cast<ptrdiff_t>(spec.pixel_bytes());
    view.spec.width_px = r.width;
    view.spec.height_px = r.height;
    return view;
  }
};

using ImageView = BasicImageView<const uint8_t>;
using MutableImageView = BasicImageView<uint8_t>;

// Owns its pixels, tightly packed; contents are indeterminate until written.
class Image {
 public:
  Image() = default;
  explicit Image(const ImageSpec& spec)
      : spec_(spec), pixels_(spec.row_bytes() * static_cast<size_t>(spec.height_px)) {}

  const ImageSpec& spec() const { return spec_; }
  ImageView view() const { return {pixels_.data(), spec_, RowBytes()}; }
  MutableImageView mutable_view() { return {pixels_.data(), spec_, RowBytes()}; }
  size_t bytes() const { return pixels_.bytes(); }

 private:
  ptrdiff_t RowBytes() const { return static_cast<ptrdiff_t>(spec_.row_bytes()); }

  ImageSpec spec_;
  AlignedBuffer<uint8_t> pixels_;
};

// Memory of an Image, at most.
inline size_t ImageBytes(const ImageSpec& spec) {
  return spec.row_bytes() * static_cast<size_t>(spec.height_px) +
         AlignedBuffer<uint8_t>::kAlignmentBytes;
}

}  // namespace upscaled
