// The steps of squeeze and excite (Hu, Shen, Sun, "Squeeze-and-Excitation Networks"): each
// channel's mean over an image, and products.
#pragma once

#include "engine/train/step.h"

namespace upscaled::train {

// One pixel of each image: the means.
template <typename Real>
class GlobalAveragePool final : public Step<Real> {
 public:
  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  Size OutputSize(Size /*source*/) const override { return {1, 1}; }
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;
};

// The product of two sources of one size, or with a second of one pixel for each image.
template <typename Real>
class Multiply final : public Step<Real> {
 public:
  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  bool Takes(Size first, Size other) const override {
    return other == first || other == Size{1, 1};
  }
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;
};

}  // namespace upscaled::train
