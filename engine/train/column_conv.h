// Convolutions of any kernel, stride and padding, and transposed ones, through columns: the values
// all taps of a pixel of the smaller side read of the larger side, or give to it, lie side by side
// in a row, so all parts are matrix products of a line at a time ("im2col").
//
//   convolution             transposed
//   columns = src's taps    columns = src x W
//   dst     = columns x W^T dst     = the columns put where their taps are, summed up
//
// The derivative by the source of one is the other; the one by the weights is for both the smaller
// side transposed x columns.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/model/network.h"
#include "engine/train/kernels/product.h"
#include "engine/train/step.h"

namespace upscaled::train {

// Parameters: weights [tap][channel of the smaller side][channel of the larger], bias [out].
template <typename Real>
class ColumnConv final : public Step<Real> {
 public:
  // `layer`: a convolution or a transposed one.
  explicit ColumnConv(const Layer& layer, cpu::Isa isa = cpu::ListIsas().front());

  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  Size OutputSize(Size source) const override;
  void Begin(const Real* params) override;
  void End(Real* d_params) override;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;

 private:
  int taps() const { return kernel_ * kernel_; }
  // A row of columns, and its padded length.
  int columns() const { return PaddedChannels(taps() * large_); }
  size_t Weight(int tap, int small, int large) const {
    return (size_t{1} * tap * small_ + small) * large_ + large;
  }
  // Calls `visit(columns of the tap, channels of the pixel)` for the pixels of `large` under a
  // line's taps.
  template <typename Large, typename Visit>
  void ForEachTap(Large& large, int image, int y, int width, Visit visit);

  // The columns of a line of the smaller side, taken from the larger.
  void Gather(const Tensor<Real>& large, int image, int y, int width);
  // Adds them to it.
  void Scatter(int image, int y, int width, Tensor<Real>& large);
  // sums_ = columns x W^T; columns = `small`'s line x W; d_weights_ += its transpose x columns.
  void ReduceColumns(int width);
  void ExpandLine(const Tensor<Real>& small, int line);
  void AddWeightGradient(const Tensor<Real>& small, int line);
  // sums_ to a line.
  void StoreLine(const Real* bias, bool add, Tensor<Real>& small, int line) const;

  const bool transposed_;
  const int small_, large_;  // channels of either side
  const int out_, kernel_, stride_, padding_;
  const ProductFunction<Real> multiply_;
  LineVector<Real> weights_, turned_;  // [small][tap][large] and [tap][large][small], padded
  LineVector<Real> d_weights_;         // as weights_
  LineVector<Real> columns_, sums_;    // [pixel] of a line
};

}  // namespace upscaled::train
