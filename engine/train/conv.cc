#include "engine/train/conv.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/train/gemm.h"

namespace upscaled::train {
namespace {

// Of a channel in a block: with 48 channels in and out, 300 KB, of a second-level cache of 1 MB.
constexpr int kBlockValues = 768;

// In several sums at a time, which need not wait for each other.
template <typename Real>
Real Sum(const Real* values, size_t count) {
  std::array<Real, 16> sums{};
  size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += values[i + k];
  }
  for (; i < count; ++i) sums[0] += values[i];
  return std::accumulate(sums.begin(), sums.end(), Real{0});
}

}  // namespace

bool ConvSupports(const Layer& layer) {
  return layer.op == Op::kConv && layer.stride_px == 1 && layer.kernel_px <= Grid::kReachPx + 1 &&
         layer.padding_px <= std::min(1, layer.kernel_px - 1);
}

template <typename Real>
Conv<Real>::Conv(const Layer& layer)
    : in_(layer.in_channels),
      out_(layer.out_channels),
      kernel_(layer.kernel_px),
      padding_(layer.padding_px) {}

template <typename Real>
Size Conv<Real>::OutputSize(Size source) const {
  const int cut = kernel_ - 1 - 2 * padding_;
  return {source.width - cut, source.height - cut};
}

template <typename Real>
int Conv<Real>::LinesOfBlock(const Grid& grid) {
  return std::max(1, kBlockValues / static_cast<int>(grid.pitch()));
}

template <typename Real>
ptrdiff_t Conv<Real>::Shift(const Grid& grid, int tap) const {
  const int dy = tap / kernel_ - padding_, dx = tap % kernel_ - padding_;
  return dy * static_cast<ptrdiff_t>(grid.pitch()) + dx;
}

template <typename Real>
void Conv<Real>::Forward(const Real* params, Sources src, Tensor<Real>& dst) {
  const Tensor<Real>& source = *src[0];
  const Grid& grid = source.grid();
  const Real* bias = Weights(params, kernel_ * kernel_);
  ForEachBlock(grid, [&](Block block) {
    const size_t values = block.lines * grid.pitch();
    sums_.resize(out_ * values);
    for (int tap = 0; tap < kernel_ * kernel_; ++tap) {
      const Real* shifted = source.line(0, block.line) + Shift(grid, tap);
      Gemm(out_, static_cast<int>(values), in_, {Weights(params, tap), size_t(in_)},
           {shifted, source.row_values()}, tap > 0, sums_.data(), values);
    }
    for (int i = 0; i < block.lines; ++i) {
      const int image = (block.line + i) / (grid.size.height + 1);
      const int y = (block.line + i) % (grid.size.height + 1);
      if (y >= dst.grid().size.height) continue;
      for (int o = 0; o < out_; ++o) {
        const Real* from = sums_.data() + o * values + i * grid.pitch();
        Real* to = dst.line(o, dst.grid().Line(image, y));
        for (int x = 0; x < dst.grid().size.width; ++x) to[x] = from[x] + bias[o];
      }
    }
  });
}

template <typename Real>
void Conv<Real>::Gather(const Grid& src_grid, const Tensor<Real>& d_dst, Block block) {
  const int lines = LinesBefore() + block.lines + LinesBehind();
  gathered_stride_ = lines * src_grid.pitch();
  gathered_.assign(out_ * gathered_stride_, Real{0});
  for (int i = 0; i < lines; ++i) {
    const int line = block.line - LinesBefore() + i;
    if (line < 0 || line >= src_grid.lines()) continue;
    const int image = line / (src_grid.size.height + 1), y = line % (src_grid.size.height + 1);
    if (y >= d_dst.grid().size.height) continue;
    for (int o = 0; o < out_; ++o) {
      std::copy_n(d_dst.line(o, d_dst.grid().Line(image, y)), d_dst.grid().size.width,
                  gathered_.data() + o * gathered_stride_ + i * src_grid.pitch());
    }
  }
}

template <typename Real>
void Conv<Real>::AddSourceGradient(const Real* params, Block block, Tensor<Real>& d_src) {
  const Grid& grid = d_src.grid();
  const size_t values = block.lines * grid.pitch();
  sums_.resize(in_ * values);
  for (int tap = 0; tap < kernel_ * kernel_; ++tap) {
    const Real* shifted = gathered_.data() + LinesBefore() * grid.pitch() - Shift(grid, tap);
    Gemm(in_, static_cast<int>(values), out_, {Weights(params, tap), size_t(in_), true},
         {shifted, gathered_stride_}, tap > 0, sums_.data(), values);
  }
  for (int i = 0; i < block.lines; ++i) {
    if (grid.IsZeroLine(block.line + i)) continue;
    for (int c = 0; c < in_; ++c) {
      const Real* from = sums_.data() + c * values + i * grid.pitch();
      Real* to = d_src.line(c, block.line + i);
      for (int x = 0; x < grid.size.width; ++x) to[x] += from[x];
    }
  }
}

template <typename Real>
void Conv<Real>::AddWeightGradient(const Tensor<Real>& src, Block block, Real* d_params) {
  const Grid& grid = src.grid();
  const int values = static_cast<int>(block.lines * grid.pitch());
  const Real* own = gathered_.data() + LinesBefore() * grid.pitch();
  for (int tap = 0; tap < kernel_ * kernel_; ++tap) {
    Gemm(out_, in_, values, {own, gathered_stride_},
         {src.line(0, block.line) + Shift(grid, tap), src.row_values(), true}, true,
         d_params + tap * out_ * in_, in_);
  }
  Real* d_bias = d_params + kernel_ * kernel_ * out_ * in_;
  for (int o = 0; o < out_; ++o) d_bias[o] += Sum(own + o * gathered_stride_, values);
}

template <typename Real>
void Conv<Real>::Backward(const Real* params, Sources src, const Tensor<Real>& d_dst,
                          SourceGradients d_src, Real* d_params) {
  ForEachBlock(src[0]->grid(), [&](Block block) {
    Gather(src[0]->grid(), d_dst, block);
    AddWeightGradient(*src[0], block, d_params);
    if (d_src[0] != nullptr) AddSourceGradient(params, block, *d_src[0]);
  });
}

template class Conv<float>;
template class Conv<double>;

}  // namespace upscaled::train
