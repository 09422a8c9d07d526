// The training of a convolution as in the ancestor of this project: nine matrix products over a
// whole mini-batch, with shared zeros between its images (engine/train/grid.h; "kn2row": Vasudevan,
// Anderson, Gregg, arXiv:1704.04428). The peer of engine/train's kernels.
#pragma once

#include <span>
#include <vector>

#include "engine/train/kernels/product.h"
#include "engine/train/tensor.h"

namespace upscaled::bench {

// A 3x3 convolution with a padding of one pixel, of more channels than an image's on both sides,
// with both on one grid. A shift by a tap is a distance between pixels; values between the images
// are cleared after the sum.
class Kn2Row {
 public:
  using Tensor = train::Tensor<float>;

  Kn2Row(int in_channels, int out_channels, train::ProductFunction<float> multiply);

  // [tap][out][in], then [out].
  void SetParameters(std::span<const float> parameters);
  void Forward(const Tensor& src, Tensor& dst) const;
  void GetSourceGradient(const Tensor& d_dst, Tensor& d_src) const;
  // The gradient of all weights, in nine products over all pixels.
  void GetWeightGradient(const Tensor& src, const Tensor& d_dst);
  // The same in one pass: some pixels at a time, kept in the cache for all nine.
  void GetWeightGradientBatched(const Tensor& src, const Tensor& d_dst);
  void GetBiasGradient(const Tensor& d_dst);
  // The gradients of the last three, laid out as the parameters.
  std::vector<float> ParameterGradient() const;

 private:
  static constexpr int kTaps = 9;

  size_t filters() const { return size_t{1} * in_ * out_; }
  // c = the sum over taps of (a shifted by the tap) x its weights, on top of its present values.
  void AddProducts(const Tensor& a, std::span<const float> weights, Tensor& c) const;
  // Adds the products of `pixels` pixels from `first` on, or starts with them.
  void AddWeightProducts(const Tensor& src, const Tensor& d_dst, size_t first, int pixels,
                         bool add);

  const int in_channels_, out_channels_, in_, out_;  // the latter padded
  const train::ProductFunction<float> multiply_;
  train::LineVector<float> weights_, turned_;  // [tap][in][out], [tap][out][in] for the other way
  train::LineVector<float> bias_, d_weights_, d_bias_;
};

}  // namespace upscaled::bench
