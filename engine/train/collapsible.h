// Convolutions trained as a sum of several (Bhardwaj et al., "Collapsible Linear Blocks for
// Super-Efficient Super Resolution", section 3): of their own 3x3 kernel, a 1x1 kernel, and a 3x3
// kernel to more channels followed by a 1x1 kernel. The sum is folded into one kernel before it
// meets an image: so the others cost next to nothing, and the served model has nothing of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/network.h"
#include "engine/train/kernels/product.h"

namespace upscaled::train {

// Parameters here are the network's (parameters.h), then those of each block.
template <typename Real>
class CollapsibleBlocks {
 public:
  // Blocks for all 3x3 convolutions, with `expansion` times the result's channels inside; 0: none.
  CollapsibleBlocks(const Network& network, int expansion);

  size_t parameter_count() const { return parameter_count_; }
  // Parameters, with these of the network as their fold.
  std::vector<Real> Expand(std::span<const Real> of_network, uint64_t seed) const;
  // The network's parameters.
  std::vector<Real> Fold(std::span<const Real> parameters) const;
  // The loss's derivative by the parameters, from the derivative by their fold.
  std::vector<Real> Gradient(std::span<const Real> parameters,
                             std::span<const Real> by_folded) const;

 private:
  static constexpr int kTaps = 9;
  struct Block {
    int in, out, wide;
    size_t kernel;  // among the network's parameters: [tap][out][in]
    size_t first;   // of the block's own: narrow [out][in], last [out][wide], wide [tap][wide][in]

    size_t narrow() const { return first; }
    size_t last() const { return narrow() + size_t{1} * out * in; }
    size_t expand() const { return last() + size_t{1} * out * wide; }
    size_t end() const { return wide_at(kTaps); }
    size_t kernel_at(int tap) const { return kernel + size_t{1} * tap * out * in; }
    size_t wide_at(int tap) const { return expand() + size_t{1} * tap * wide * in; }
  };

  const ProductFunction<Real> multiply_;
  std::vector<Block> blocks_;
  size_t network_parameters_ = 0, parameter_count_ = 0;
};

}  // namespace upscaled::train
