#include "engine/train/column_conv.h"

#include <algorithm>

namespace upscaled::train {

template <typename Real>
ColumnConv<Real>::ColumnConv(const Layer& layer, cpu::Isa isa)
    : transposed_(layer.op == Op::kConvTranspose),
      small_(transposed_ ? layer.in_channels : layer.out_channels),
      large_(transposed_ ? layer.out_channels : layer.in_channels),
      out_(layer.out_channels),
      kernel_(layer.kernel_px),
      stride_(layer.stride_px),
      padding_(layer.padding_px),
      multiply_(ProductFor<Real>(isa)),
      weights_(size_t{1} * PaddedChannels(small_) * columns()),
      turned_(weights_.size()),
      d_weights_(weights_.size()) {}

template <typename Real>
Size ColumnConv<Real>::OutputSize(Size source) const {
  const auto length = [&](int from) {
    return transposed_ ? (from - 1) * stride_ + kernel_ - 2 * padding_
                       : FloorDiv(from + 2 * padding_ - kernel_, stride_) + 1;
  };
  return {length(source.width), length(source.height)};
}

template <typename Real>
void ColumnConv<Real>::Begin(const Real* params) {
  for (int tap = 0; tap < taps(); ++tap) {
    for (int s = 0; s < small_; ++s) {
      for (int l = 0; l < large_; ++l) {
        const int column = tap * large_ + l;
        const Real weight = params[Weight(tap, s, l)];
        weights_[size_t{1} * s * columns() + column] = weight;
        turned_[size_t{1} * column * PaddedChannels(small_) + s] = weight;
      }
    }
  }
}

template <typename Real>
void ColumnConv<Real>::End(Real* d_params) {
  for (int tap = 0; tap < taps(); ++tap) {
    for (int s = 0; s < small_; ++s) {
      for (int l = 0; l < large_; ++l) {
        d_params[Weight(tap, s, l)] += d_weights_[size_t{1} * s * columns() + tap * large_ + l];
      }
    }
  }
  std::fill(d_weights_.begin(), d_weights_.end(), Real{0});
}

template <typename Real>
template <typename Large, typename Visit>
void ColumnConv<Real>::ForEachTap(Large& large, int image, int y, int width, Visit visit) {
  const Size size = large.grid().size;
  for (int ky = 0; ky < kernel_; ++ky) {
    const int v = y * stride_ + ky - padding_;
    if (v < 0 || v >= size.height) continue;
    auto* line = large.line(large.grid().Line(image, v));
    for (int x = 0; x < width; ++x) {
      for (int kx = 0; kx < kernel_; ++kx) {
        const int u = x * stride_ + kx - padding_;
        if (u < 0 || u >= size.width) continue;
        visit(columns_.data() + size_t{1} * x * columns() + (ky * kernel_ + kx) * large_,
              line + u * large.stride());
      }
    }
  }
}

template <typename Real>
void ColumnConv<Real>::Gather(const Tensor<Real>& large, int image, int y, int width) {
  columns_.assign(size_t{1} * width * columns(), Real{0});
  ForEachTap(large, image, y, width,
             [&](Real* columns, const Real* pixel) { std::copy_n(pixel, large_, columns); });
}

template <typename Real>
void ColumnConv<Real>::Scatter(int image, int y, int width, Tensor<Real>& large) {
  ForEachTap(large, image, y, width, [&](const Real* columns, Real* pixel) {
    for (int c = 0; c < large_; ++c) pixel[c] += columns[c];
  });
}

template <typename Real>
void ColumnConv<Real>::ReduceColumns(int width) {
  const int small = PaddedChannels(small_);
  sums_.resize(size_t{1} * width * small);
  multiply_({.rows = width,
             .columns = small,
             .depth = columns(),
             .a = columns_.data(),
             .a_row = size_t(columns()),
             .a_depth = 1,
             .b = turned_.data(),
             .b_stride = size_t(small),
             .c = sums_.data(),
             .c_stride = size_t(small),
             .add = false});
}

template <typename Real>
void ColumnConv<Real>::ExpandLine(const Tensor<Real>& small, int line) {
  const int width = small.grid().size.width;
  columns_.resize(size_t{1} * width * columns());
  multiply_({.rows = width,
             .columns = columns(),
             .depth = small_,
             .a = small.line(line),
             .a_row = size_t(small.stride()),
             .a_depth = 1,
             .b = weights_.data(),
             .b_stride = size_t(columns()),
             .c = columns_.data(),
             .c_stride = size_t(columns()),
             .add = false});
}

template <typename Real>
void ColumnConv<Real>::AddWeightGradient(const Tensor<Real>& small, int line) {
  multiply_({.rows = small_,
             .columns = columns(),
             .depth = small.grid().size.width,
             .a = small.line(line),
             .a_row = 1,
             .a_depth = size_t(small.stride()),
             .b = columns_.data(),
             .b_stride = size_t(columns()),
             .c = d_weights_.data(),
             .c_stride = size_t(columns()),
             .add = true});
}

template <typename Real>
void ColumnConv<Real>::StoreLine(const Real* bias, bool add, Tensor<Real>& small, int line) const {
  Real* pixel = small.line(line);
  const Real* sums = sums_.data();
  for (int x = 0; x < small.grid().size.width; ++x) {
    for (int c = 0; c < small_; ++c) {
      pixel[c] = sums[c] + (bias == nullptr ? Real{0} : bias[c]) + (add ? pixel[c] : Real{0});
    }
    pixel += small.stride();
    sums += PaddedChannels(small_);
  }
}

template <typename Real>
void ColumnConv<Real>::Forward(const Real* params, Sources src, Tensor<Real>& dst) {
  const Real* bias = params + Weight(taps(), 0, 0);
  const Tensor<Real>& small = transposed_ ? *src[0] : dst;
  const int width = small.grid().size.width;
  for (int image = 0; image < dst.grid().images; ++image) {
    for (int y = 0; transposed_ && y < dst.grid().size.height; ++y) {
      Real* pixel = dst.line(dst.grid().Line(image, y));
      for (int x = 0; x < dst.grid().size.width; ++x, pixel += dst.stride()) {
        std::copy_n(bias, out_, pixel);
      }
    }
    for (int y = 0; y < small.grid().size.height; ++y) {
      const int line = small.grid().Line(image, y);
      if (transposed_) {
        ExpandLine(small, line);
        Scatter(image, y, width, dst);
      } else {
        Gather(*src[0], image, y, width);
        ReduceColumns(width);
        StoreLine(bias, false, dst, line);
      }
    }
  }
}

template <typename Real>
void ColumnConv<Real>::Backward(const Real* /*params*/, Sources src, const Tensor<Real>& /*dst*/,
                                const Tensor<Real>& d_dst, SourceGradients d_src, Real* d_params) {
  Real* d_bias = d_params + Weight(taps(), 0, 0);
  const Tensor<Real>& small = transposed_ ? *src[0] : d_dst;
  const Tensor<Real>& large = transposed_ ? d_dst : *src[0];
  Tensor<Real>* d_large =
      !transposed_ && d_src[0].tensor != nullptr ? &d_src[0].Cleared() : nullptr;
  const int width = small.grid().size.width;
  for (int image = 0; image < d_dst.grid().images; ++image) {
    for (int y = 0; y < d_dst.grid().size.height; ++y) {
      const Real* pixel = d_dst.line(d_dst.grid().Line(image, y));
      for (int x = 0; x < d_dst.grid().size.width; ++x, pixel += d_dst.stride()) {
        for (int c = 0; c < out_; ++c) d_bias[c] += pixel[c];
      }
    }
    for (int y = 0; y < small.grid().size.height; ++y) {
      const int line = small.grid().Line(image, y);
      Gather(large, image, y, width);
      AddWeightGradient(small, line);
      if (transposed_ && d_src[0].tensor != nullptr) {
        ReduceColumns(width);
        StoreLine(nullptr, d_src[0].add, *d_src[0].tensor, line);
      }
      if (d_large != nullptr) {
        ExpandLine(small, line);
        Scatter(image, y, width, *d_large);
      }
    }
  }
}

template class ColumnConv<float>;
template class ColumnConv<double>;

}  // namespace upscaled::train
