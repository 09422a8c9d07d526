#include "engine/train/collapsible.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/train/parameters.h"

namespace upscaled::train {
namespace {

constexpr int kMiddleTap = 4;

// to += factor * from, of `count` values.
template <typename Real>
void AddScaled(Real factor, const Real* from, int count, Real* to) {
  for (int i = 0; i < count; ++i) to[i] += factor * from[i];
}

template <typename Real>
Real Dot(const Real* a, const Real* b, int count) {
  Real sum = 0;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

template <typename Real>
CollapsibleBlocks<Real>::CollapsibleBlocks(const Network& network, int expansion) {
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

// The kernels to more channels are random, what reads them is 0.
template <typename Real>
std::vector<Real> CollapsibleBlocks<Real>::Expand(std::span<const Real> of_network,
                                                  uint64_t seed) const {
  std::vector<Real> parameters(of_network.begin(), of_network.end());
  parameters.resize(parameter_count_);
  std::mt19937_64 random(seed);
  for (const Block& block : blocks_) {
    const double limit = std::sqrt(3.0 / (kTaps * block.in));  // of a variance of 1 / (9 * in)
    for (size_t i = block.expand(); i < block.end(); ++i) {
      // Not the standard's distributions, which differ between libraries.
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
    for (int o = 0; o < block.out; ++o) {
      const auto row = [&](int tap) {
        return folded.data() + block.kernel + (tap * block.out + o) * block.in;
      };
      AddScaled(Real{1}, from + block.narrow() + o * block.in, block.in, row(kMiddleTap));
      for (int w = 0; w < block.wide; ++w) {
        const Real factor = from[block.last() + o * block.wide + w];
        for (int tap = 0; tap < kTaps; ++tap) {
          AddScaled(factor, from + block.expand() + (tap * block.wide + w) * block.in, block.in,
                    row(tap));
        }
      }
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
    for (int o = 0; o < block.out; ++o) {
      const auto row = [&](int tap) {
        return by_folded.data() + block.kernel + (tap * block.out + o) * block.in;
      };
      std::copy_n(row(kMiddleTap), block.in, gradient.data() + block.narrow() + o * block.in);
      for (int w = 0; w < block.wide; ++w) {
        const size_t last = block.last() + o * block.wide + w;
        for (int tap = 0; tap < kTaps; ++tap) {
          const size_t wide = block.expand() + (tap * block.wide + w) * block.in;
          gradient[last] += Dot(row(tap), parameters.data() + wide, block.in);
          AddScaled(parameters[last], row(tap), block.in, gradient.data() + wide);
        }
      }
    }
  }
  return gradient;
}

template class CollapsibleBlocks<float>;
template class CollapsibleBlocks<double>;

}  // namespace upscaled::train
