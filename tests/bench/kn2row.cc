#include "tests/bench/kn2row.h"

#include <algorithm>

#include "engine/train/conv_weights.h"

namespace upscaled::bench {
namespace {

using Tensor = train::Tensor<float>;

// The bytes of both sides, in addition to the weights' gradients: half of a small second-level
// cache.
constexpr int kBatchedBytes = 256 << 10;

// Pixels from the first of line 0 to the last, those between images included.
size_t Pixels(const Tensor& tensor) { return tensor.grid().lines() * tensor.grid().pitch(); }

// The distance of a tap's pixel from its target, in values of the tensor.
ptrdiff_t Shift(const Tensor& tensor, int tap) {
  const auto pitch = static_cast<ptrdiff_t>(tensor.grid().pitch());
  return ((tap / 3 - 1) * pitch + tap % 3 - 1) * tensor.stride();
}

void ClearBetweenImages(Tensor& tensor) {
  const train::Grid& grid = tensor.grid();
  for (int line = 0; line < grid.lines(); ++line) {
    float* row = tensor.line(line);
    const bool between = line % (grid.size.height + 1) == grid.size.height;
    std::fill(row + (between ? 0 : grid.size.width * tensor.stride()), row + tensor.line_stride(),
              0.0f);
  }
}

}  // namespace

Kn2Row::Kn2Row(int in_channels, int out_channels, train::ProductFunction<float> multiply)
    : in_channels_(in_channels),
      out_channels_(out_channels),
      in_(train::PaddedChannels(in_channels)),
      out_(train::PaddedChannels(out_channels)),
      multiply_(multiply),
      weights_(kTaps * filters()),
      turned_(kTaps * filters()),
      bias_(out_),
      d_weights_(kTaps * filters()),
      d_bias_(out_) {}

void Kn2Row::SetParameters(std::span<const float> parameters) {
  const train::ConvShape shape{in_channels_, out_channels_, 3, 1};
  train::PackWeights(shape, parameters.data(), in_, out_, weights_.data());
  train::PackTurnedWeights(shape, parameters.data(), in_, out_, turned_.data());
  std::copy_n(parameters.data() + shape.weights(), out_channels_, bias_.data());
}

void Kn2Row::AddProducts(const Tensor& a, std::span<const float> weights, Tensor& c) const {
  for (int tap = 0; tap < kTaps; ++tap) {
    multiply_({.rows = static_cast<int>(Pixels(c)),
               .columns = c.stride(),
               .depth = a.stride(),
               .a = a.line(0) + Shift(a, tap),
               .a_row = size_t(a.stride()),
               .a_depth = 1,
               .b = weights.data() + tap * filters(),
               .b_stride = size_t(c.stride()),
               .c = c.line(0),
               .c_stride = size_t(c.stride()),
               .add = true});
  }
  ClearBetweenImages(c);
}

void Kn2Row::Forward(const Tensor& src, Tensor& dst) const {
  float* pixel = dst.line(0);
  for (size_t i = 0; i < Pixels(dst); ++i, pixel += out_) std::copy_n(bias_.data(), out_, pixel);
  AddProducts(src, weights_, dst);
}

void Kn2Row::GetSourceGradient(const Tensor& d_dst, Tensor& d_src) const {
  std::fill(d_src.values().begin(), d_src.values().end(), 0.0f);
  AddProducts(d_dst, turned_, d_src);
}

void Kn2Row::AddWeightProducts(const Tensor& src, const Tensor& d_dst, size_t first, int pixels,
                               bool add) {
  for (int tap = 0; tap < kTaps; ++tap) {
    multiply_({.rows = in_,
               .columns = out_,
               .depth = pixels,
               .a = src.line(0) + first * in_ + Shift(src, tap),
               .a_row = 1,
               .a_depth = size_t(in_),
               .b = d_dst.line(0) + first * out_,
               .b_stride = size_t(out_),
               .c = d_weights_.data() + tap * filters(),
               .c_stride = size_t(out_),
               .add = add});
  }
}

void Kn2Row::GetWeightGradient(const Tensor& src, const Tensor& d_dst) {
  AddWeightProducts(src, d_dst, 0, static_cast<int>(Pixels(src)), false);
}

void Kn2Row::GetWeightGradientBatched(const Tensor& src, const Tensor& d_dst) {
  const size_t at_a_time = kBatchedBytes / (sizeof(float) * (in_ + out_));
  for (size_t first = 0; first < Pixels(src); first += at_a_time) {
    const size_t pixels = std::min(at_a_time, Pixels(src) - first);
    AddWeightProducts(src, d_dst, first, static_cast<int>(pixels), first > 0);
  }
}

void Kn2Row::GetBiasGradient(const Tensor& d_dst) {
  std::fill(d_bias_.begin(), d_bias_.end(), 0.0f);
  const float* pixel = d_dst.line(0);
  for (size_t i = 0; i < Pixels(d_dst); ++i, pixel += out_) {
    for (int c = 0; c < out_; ++c) d_bias_[c] += pixel[c];
  }
}

std::vector<float> Kn2Row::ParameterGradient() const {
  const train::ConvShape shape{in_channels_, out_channels_, 3, 1};
  std::vector<float> gradient(shape.weights());
  train::AddPacked(shape, d_weights_.data(), in_, out_, gradient.data());
  gradient.insert(gradient.end(), d_bias_.begin(), d_bias_.begin() + out_channels_);
  return gradient;
}

}  // namespace upscaled::bench
