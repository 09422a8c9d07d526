// One step of a network's computation, and of its derivative. A step is used by one thread at a
// time. Real is float, and double where gradients are checked.
#pragma once

#include <algorithm>
#include <span>

#include "engine/base/geometry.h"
#include "engine/train/tensor.h"

namespace upscaled::train {

// Where the loss's derivative by a source goes. The first writing step finds anything there.
template <typename Real>
struct SourceGradient {
  Tensor<Real>* tensor = nullptr;  // null: not wanted
  bool add = false;                // to what is there

  // For steps with `+=` in any case.
  Tensor<Real>& Cleared() const {
    if (!add) std::fill(tensor->values().begin(), tensor->values().end(), Real{0});
    return *tensor;
  }
};

template <typename Real>
class Step {
 public:
  using Sources = std::span<const Tensor<Real>* const>;
  using SourceGradients = std::span<const SourceGradient<Real>>;

  virtual ~Step() = default;
  // The size of `dst` for so large a first source.
  virtual Size OutputSize(Size source) const { return source; }
  // Whether another source may be of this size.
  virtual bool Takes(Size first, Size other) const { return other == first; }
  // Called before the first Forward with these parameters, and after the last Backward. Does the
  // work shared by all mini-batches in between. `params`: the step's own, as parameters.h orders
  // them.
  virtual void Begin(const Real* /*params*/) {}
  virtual void End(Real* /*d_params*/) {}
  // Writes all pixels of `dst`.
  virtual void Forward(const Real* params, Sources src, Tensor<Real>& dst) = 0;
  // `d_dst` is the loss's derivative by the result. Gives the derivatives by the sources, and adds
  // the ones by the parameters, here or in End. `src` and `dst` are Forward's.
  virtual void Backward(const Real* params, Sources src, const Tensor<Real>& dst,
                        const Tensor<Real>& d_dst, SourceGradients d_src, Real* d_params) = 0;
};

}  // namespace upscaled::train
