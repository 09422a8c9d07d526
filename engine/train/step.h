// One step of a network's computation, and of its derivative. A step is used by one thread at a
// time. Real is float, and double where gradients are checked.
#pragma once

#include <span>

#include "engine/base/geometry.h"
#include "engine/train/tensor.h"

namespace upscaled::train {

template <typename Real>
class Step {
 public:
  using Sources = std::span<const Tensor<Real>* const>;
  using SourceGradients = std::span<Tensor<Real>* const>;

  virtual ~Step() = default;
  // Of `dst` for so large a first source.
  virtual Size OutputSize(Size source) const { return source; }
  // Writes all pixels of `dst`. `params`: the step's own, as parameters.h orders them.
  virtual void Forward(const Real* params, Sources src, Tensor<Real>& dst) = 0;
  // Adds, for the loss of which `d_dst` is the derivative, its derivatives by the sources (those
  // that are null are not wanted) and by the parameters. `src` is what Forward had.
  virtual void Backward(const Real* params, Sources src, const Tensor<Real>& d_dst,
                        SourceGradients d_src, Real* d_params) = 0;
};

}  // namespace upscaled::train
