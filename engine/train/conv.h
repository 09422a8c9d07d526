// Convolution of stride 1 as a sum of matrix products, one for each tap of the kernel ("kn2row":
// Vasudevan, Anderson, Gregg, "Parallel Multi Channel Convolution using General Matrix
// Multiplication", arXiv:1704.04428), and its derivatives, which are such sums as well:
//
//   dst         = bias + sum over taps of W[tap] x src, shifted by the tap
//   d_src       = sum over taps of W[tap]^T x d_dst, shifted the other way
//   d_W[tap]    = d_dst x (src shifted by the tap)^T
//   d_bias      = the sums of d_dst's rows
//
// All of a mini-batch at once: a shift is one offset in a row (grid.h). What the products give
// for places between images is dropped when the sum is stored. The source's grid is worked through
// in blocks of lines that stay in a core's cache over all taps, which is what a batched product is
// for; the BLASes of Debian have none.
#pragma once

#include <vector>

#include "engine/model/network.h"
#include "engine/train/step.h"

namespace upscaled::train {

// 1x1 to 3x3, with no padding or, 3x3, one pixel of zeros. Parameters: weights [tap][out][in],
// bias [out].
bool ConvSupports(const Layer& layer);

template <typename Real>
class Conv final : public Step<Real> {
 public:
  // ConvSupports(layer).
  explicit Conv(const Layer& layer);

  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  Size OutputSize(Size source) const override;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& d_dst, SourceGradients d_src,
                Real* d_params) override;

  // The parts of Backward, for measuring. A block is `lines` lines of the source's grid.
  struct Block {
    int line = 0, lines = 0;
  };
  // d_dst's pixels, laid out as the source's grid with zeros between, kept for the two below.
  void Gather(const Grid& src_grid, const Tensor<Real>& d_dst, Block block);
  void AddSourceGradient(const Real* params, Block block, Tensor<Real>& d_src);
  void AddWeightGradient(const Tensor<Real>& src, Block block, Real* d_params);
  // Calls `run(block)` for all blocks of a grid.
  template <typename Run>
  static void ForEachBlock(const Grid& grid, Run run) {
    const int step = LinesOfBlock(grid);
    for (int line = 0; line < grid.lines(); line += step) {
      run(Block{line, line + step <= grid.lines() ? step : grid.lines() - line});
    }
  }

 private:
  static int LinesOfBlock(const Grid& grid);
  // From a value of the source's row to the one that the tap meets.
  ptrdiff_t Shift(const Grid& grid, int tap) const;
  const Real* Weights(const Real* params, int tap) const { return params + tap * out_ * in_; }
  // Of what is gathered: lines before the block and behind it, for the shifts.
  int LinesBefore() const { return kernel_ - padding_; }
  int LinesBehind() const { return padding_ + 1; }

  const int in_, out_, kernel_, padding_;
  std::vector<Real> sums_;
  std::vector<Real> gathered_;
  size_t gathered_stride_ = 0;
};

}  // namespace upscaled::train
