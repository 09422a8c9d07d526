#include "engine/train/winograd_conv.h"

#include <algorithm>

#include "engine/base/aligned_buffer.h"
#include "engine/train/conv_weights.h"
#include "engine/train/kernels/product.h"
#include "engine/train/kernels/winograd_transforms.h"

namespace upscaled::train {
namespace {

// Transforms go through all points: these must not share the sets of the cache.
size_t OddCacheLines(size_t floats) { return floats / 16 % 2 == 0 ? floats + 16 : floats; }

// Computed at a time: fewer reload the weights too often, since all together exceed a core's cache;
// of more the points leave it before they are read. Six of the product's tiles.
constexpr int kMaxTiles = 54;

class WinogradConv final : public ConvKernel<float> {
 public:
  WinogradConv(const ConvShape& shape, const WinogradTransforms& transforms, cpu::Isa isa)
      : shape_(shape),
        transforms_(transforms),
        multiply_(ProductFor<float>(isa)),
        points_((transforms.outputs + 2) * (transforms.outputs + 2)),
        in_(PaddedChannels(shape.in)),
        out_(PaddedChannels(shape.out)),
        packed_(9 * filters()),
        weights_(points_ * filters()),
        turned_(points_ * filters()),
        d_weights_(points_ * filters()) {}

  void SetWeights(const float* params) override {
    PackWeights(shape_, params, in_, out_, packed_.data());
    transforms_.weights(packed_.data(), filters(), weights_.data());
    PackTurnedWeights(shape_, params, in_, out_, packed_.data());
    transforms_.weights(packed_.data(), filters(), turned_.data());
  }
  void Forward(const Tensor<float>& src, int image, const ConvEpilogue<float>& epilogue,
               Tensor<float>& dst) override {
    Convolve(SourceOf(src, image), weights_.data(), image, epilogue, dst);
  }
  void GetSourceGradient(const SumsGradient<float>& d_sums, int image, bool add,
                         Tensor<float>& d_src) override {
    const int border = 2 - shape_.padding_px;
    Convolve(SourceOf(d_sums, -border), turned_.data(), image, {.add = add}, d_src);
  }
  void AddWeightGradient(const Tensor<float>& src, int image,
                         const SumsGradient<float>& d_sums) override;
  void MoveWeightGradient(float* d_params) override;

 private:
  // Tiles of an image, line after line, a few at a time.
  struct Tiles {
    int columns, first, count;
    int outputs;
    int x(int tile) const { return (first + tile) % columns * outputs; }
    int y(int tile) const { return (first + tile) / columns * outputs; }
  };
  template <typename Run>
  void ForEachTiles(Size size, Run run) const;

  size_t filters() const { return size_t{1} * in_ * out_; }
  size_t Stride(int channels) const { return OddCacheLines(size_t{1} * kMaxTiles * channels); }

  // An image from the input of the first pixel's first tap to the last readable pixel.
  struct Source {
    WinogradPixels pixels;
    Size size;
    int channels;
  };
  Source SourceOf(const Tensor<float>& src, int image) const {
    const int padding = shape_.padding_px;
    const float* first = src.line(src.grid().Line(image, 0) - padding) - padding * src.stride();
    const Size size = src.grid().size;
    return {{const_cast<float*>(first), src.line_stride(), size_t(src.stride())},
            {size.width + 2 * padding, size.height + 2 * padding},
            src.stride()};
  }
  static Source SourceOf(const SumsGradient<float>& d_sums, int at) {
    constexpr int kReach = SumsGradient<float>::kBorderPx + SumsGradient<float>::kReachPx;
    const Size size = d_sums.size();
    return {{const_cast<float*>(d_sums.At(at, at)), d_sums.line_stride(), d_sums.pixel_stride()},
            {size.width - at + kReach, size.height - at + kReach},
            static_cast<int>(d_sums.pixel_stride())};
  }
  // The `side` x `side` pixels at (x, y); a copy with zeros where they are not all in `src`.
  WinogradPixels TileOf(const Source& src, int y, int x, int side);
  // Tiles of `side` pixels of `src` to `points` by one of the transforms.
  void Transform(decltype(WinogradTransforms::input) transform, int side, const Source& src,
                 const Tiles& tiles, AlignedBuffer<float>& points);
  void Convolve(const Source& src, const float* weights, int image,
                const ConvEpilogue<float>& epilogue, Tensor<float>& dst);

  const ConvShape shape_;
  const WinogradTransforms& transforms_;
  const ProductFunction<float> multiply_;
  const int points_, in_, out_;  // channels are padded
  LineVector<float> packed_;
  AlignedBuffer<float> weights_, turned_;  // [point][in][out] and [point][out][in]
  LineVector<float> d_weights_;            // [point][in][out]
  AlignedBuffer<float> from_, to_;         // [point][tile][channel] of what is read and written
  LineVector<float> tile_;                 // TileOf's
};

WinogradPixels At(const WinogradPixels& pixels, int y, int x) {
  return {pixels.values + y * pixels.line_stride + x * pixels.pixel_stride, pixels.line_stride,
          pixels.pixel_stride};
}

template <typename Run>
void WinogradConv::ForEachTiles(Size size, Run run) const {
  const int outputs = transforms_.outputs;
  const int columns = CeilDiv(size.width, outputs);
  const int all = columns * CeilDiv(size.height, outputs);
  int groups = CeilDiv(all, kMaxTiles);
  for (int first = 0; first < all; --groups) {
    const int count = CeilDiv(all - first, groups);
    run(Tiles{columns, first, count, outputs});
    first += count;
  }
}

WinogradPixels WinogradConv::TileOf(const Source& src, int y, int x, int side) {
  const int lines = std::min(side, src.size.height - y);
  const int columns = std::min(side, src.size.width - x);
  const WinogradPixels inside = At(src.pixels, y, x);
  if (lines == side && columns == side) return inside;
  const size_t channels = src.channels;
  tile_.assign(side * side * channels, 0.0f);
  for (int i = 0; i < lines; ++i) {
    std::copy_n(inside.values + i * inside.line_stride, columns * channels,
                tile_.data() + i * side * channels);
  }
  return {tile_.data(), side * channels, channels};
}

void WinogradConv::Transform(decltype(WinogradTransforms::input) transform, int side,
                             const Source& src, const Tiles& tiles, AlignedBuffer<float>& points) {
  points.Reserve(points_ * Stride(src.channels));
  for (int i = 0; i < tiles.count; ++i) {
    transform(TileOf(src, tiles.y(i), tiles.x(i), side), src.channels,
              points.data() + i * src.channels, Stride(src.channels));
  }
}

void WinogradConv::Convolve(const Source& src, const float* weights, int image,
                            const ConvEpilogue<float>& epilogue, Tensor<float>& dst) {
  const int channels = src.channels;
  const int dst_channels = PaddedChannels(dst.channels());
  const size_t filters_stride = filters();
  to_.Reserve(points_ * Stride(dst_channels));
  const WinogradPixels pixels{dst.line(dst.grid().Line(image, 0)), dst.line_stride(),
                              size_t(dst.stride())};
  const Size size = dst.grid().size;
  ForEachTiles(size, [&](const Tiles& tiles) {
    Transform(transforms_.input, transforms_.outputs + 2, src, tiles, from_);
    for (int p = 0; p < points_; ++p) {
      multiply_({.rows = tiles.count,
                 .columns = dst_channels,
                 .depth = channels,
                 .a = from_.data() + p * Stride(channels),
                 .a_row = size_t(channels),
                 .a_depth = 1,
                 .b = weights + p * filters_stride,
                 .b_stride = size_t(dst_channels),
                 .c = to_.data() + p * Stride(dst_channels),
                 .c_stride = size_t(dst_channels),
                 .add = false});
    }
    for (int i = 0; i < tiles.count; ++i) {
      const int y = tiles.y(i), x = tiles.x(i);
      transforms_.output(to_.data() + i * dst_channels, Stride(dst_channels), dst_channels,
                         std::min(tiles.outputs, size.height - y),
                         std::min(tiles.outputs, size.width - x),
                         {epilogue.bias, epilogue.slope, epilogue.add}, At(pixels, y, x));
    }
  });
}

void WinogradConv::AddWeightGradient(const Tensor<float>& src, int image,
                                     const SumsGradient<float>& d_sums) {
  ForEachTiles(d_sums.size(), [&](const Tiles& tiles) {
    Transform(transforms_.input, transforms_.outputs + 2, SourceOf(src, image), tiles, from_);
    Transform(transforms_.gradient, transforms_.outputs, SourceOf(d_sums, 0), tiles, to_);
    for (int p = 0; p < points_; ++p) {
      multiply_({.rows = in_,
                 .columns = out_,
                 .depth = tiles.count,
                 .a = from_.data() + p * Stride(in_),
                 .a_row = 1,
                 .a_depth = size_t(in_),
                 .b = to_.data() + p * Stride(out_),
                 .b_stride = size_t(out_),
                 .c = d_weights_.data() + p * filters(),
                 .c_stride = size_t(out_),
                 .add = true});
    }
  });
}

void WinogradConv::MoveWeightGradient(float* d_params) {
  transforms_.weight_gradient(d_weights_.data(), filters(), packed_.data());
  AddPacked(shape_, packed_.data(), in_, out_, d_params);
  std::fill(d_weights_.begin(), d_weights_.end(), 0.0f);
}

}  // namespace

bool WinogradConvSupports(const ConvShape& shape) {
  return shape.kernel_px == 3 && shape.in > kImageChannels && shape.out > kImageChannels;
}

std::unique_ptr<ConvKernel<float>> MakeWinogradF6Conv(const ConvShape& shape, cpu::Isa isa) {
  return std::make_unique<WinogradConv>(shape, WinogradF6For(isa), isa);
}

std::unique_ptr<ConvKernel<float>> MakeWinogradF4Conv(const ConvShape& shape, cpu::Isa isa) {
  return std::make_unique<WinogradConv>(shape, WinogradF4For(isa), isa);
}

}  // namespace upscaled::train
