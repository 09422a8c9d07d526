#include "engine/train/collapsible.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/train/parameters.h"
#include "engine/train/tensor.h"

namespace upscaled::train {
namespace {

constexpr int kMiddleTap = 4;

// As products take it: aligned, rows padded with zeros.
template <typename Real>
class Matrix {
 public:
  Matrix(int rows, int columns) : rows_(rows), columns_(columns), values_(rows * stride()) {}

  int rows() const { return rows_; }
  size_t stride() const { return PaddedChannels(columns_); }
  Real* values() { return values_.data(); }

  void Read(const Real* from) {
    for (int r = 0; r < rows_; ++r, from += columns_) std::copy_n(from, columns_, row(r));
  }
  void ReadTransposed(const Real* from) {
    for (int c = 0; c < columns_; ++c) {
      for (int r = 0; r < rows_; ++r) row(r)[c] = *from++;
    }
  }
  void Write(Real* to) {
    for (int r = 0; r < rows_; ++r, to += columns_) std::copy_n(row(r), columns_, to);
  }

 private:
  Real* row(int row) { return values() + row * stride(); }

  const int rows_, columns_;
  LineVector<Real> values_;
};

// c = a x b, or c + a x b to `add`; a's strides as in ProductArgs.
template <typename Real>
void MultiplyMatrices(ProductFunction<Real> multiply, const Real* a, size_t a_row, size_t a_depth,
                      Matrix<Real>& b, Matrix<Real>& c, bool add) {
  multiply({.rows = c.rows(),
            .columns = static_cast<int>(c.stride()),
            .depth = b.rows(),
            .a = a,
            .a_row = a_row,
            .a_depth = a_depth,
            .b = b.values(),
            .b_stride = b.stride(),
            .c = c.values(),
            .c_stride = c.stride(),
            .add = add});
}

}  // namespace

template <typename Real>
CollapsibleBlocks<Real>::CollapsibleBlocks(const Network& network, int expansion)
    : multiply_(ProductFor<Real>(cpu::ListIsas().front())) {
  for (const Layer& layer : network.layers) {
    if (expansion > 0 && layer.op == Op::kConv && layer.kernel_px == 3) {
      blocks_.push_back({.in = layer.in_channels,
                         .out = layer.out_channels,
                         .wide = expansion * layer.out_channels,
                         .kernel = network_parameters_,
                         .first = 0});
    }
    network_parameters_ += ParameterCount(layer);
  }
  parameter_count_ = network_parameters_;
  for (Block& block : blocks_) {
    block.first = parameter_count_;
    parameter_count_ = block.end();
  }
}

// The kernels to more channels are random, the kernels behind them 0.
template <typename Real>
std::vector<Real> CollapsibleBlocks<Real>::Expand(std::span<const Real> of_network,
                                                  uint64_t seed) const {
  std::vector<Real> parameters(of_network.begin(), of_network.end());
  parameters.resize(parameter_count_);
  std::mt19937_64 random(seed);
  for (const Block& block : blocks_) {
    const double limit = std::sqrt(3.0 / (kTaps * block.in));  // of a variance of 1 / (9 * in)
    for (size_t i = block.expand(); i < block.end(); ++i) {
      // Not the standard's distributions: they differ between libraries.
      const double uniform = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
      parameters[i] = static_cast<Real>(limit * uniform);
    }
  }
  return parameters;
}

template <typename Real>
std::vector<Real> CollapsibleBlocks<Real>::Fold(std::span<const Real> parameters) const {
  std::vector<Real> folded(parameters.begin(), parameters.begin() + network_parameters_);
  const Real* from = parameters.data();
  for (const Block& block : blocks_) {
    Matrix<Real> kernel(block.out, block.in), wide(block.wide, block.in);
    for (int tap = 0; tap < kTaps; ++tap) {
      kernel.Read(from + block.kernel_at(tap));
      wide.Read(from + block.wide_at(tap));
      MultiplyMatrices(multiply_, from + block.last(), block.wide, 1, wide, kernel, /*add=*/true);
      Real* const to = folded.data() + block.kernel_at(tap);
      kernel.Write(to);
      if (tap != kMiddleTap) continue;
      for (int i = 0; i < block.out * block.in; ++i) to[i] += from[block.narrow() + i];
    }
  }
  return folded;
}

template <typename Real>
std::vector<Real> CollapsibleBlocks<Real>::Gradient(std::span<const Real> parameters,
                                                    std::span<const Real> by_folded) const {
  std::vector<Real> gradient(by_folded.begin(), by_folded.end());
  gradient.resize(parameter_count_);
  for (const Block& block : blocks_) {
    Matrix<Real> by_kernel(block.out, block.in), by_wide(block.wide, block.in);
    Matrix<Real> transposed(block.in, block.wide), by_last(block.out, block.wide);
    const Real* const last = parameters.data() + block.last();
    for (int tap = 0; tap < kTaps; ++tap) {
      const Real* const by_tap = by_folded.data() + block.kernel_at(tap);
      by_kernel.Read(by_tap);
      MultiplyMatrices(multiply_, last, 1, block.wide, by_kernel, by_wide, /*add=*/false);
      by_wide.Write(gradient.data() + block.wide_at(tap));
      transposed.ReadTransposed(parameters.data() + block.wide_at(tap));
      MultiplyMatrices(multiply_, by_tap, block.in, 1, transposed, by_last, /*add=*/true);
      if (tap == kMiddleTap) {
        std::copy_n(by_tap, block.out * block.in, gradient.data() + block.narrow());
      }
    }
    by_last.Write(gradient.data() + block.last());
  }
  return gradient;
}

template class CollapsibleBlocks<float>;
template class CollapsibleBlocks<double>;

}  // namespace upscaled::train
