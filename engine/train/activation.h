// ReLU, LeakyReLU and PReLU keep zeros, so they run over the places between images as well; and the
// logistic function.
#pragma once

#include "engine/model/network.h"
#include "engine/train/step.h"

namespace upscaled::train {

bool ActivationSupports(const Layer& layer);

// LeakyReLU with a fixed slope; 0 for ReLU.
template <typename Real>
class LeakyRelu final : public Step<Real> {
 public:
  explicit LeakyRelu(Real slope) : slope_(slope) {}

  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;

 private:
  const Real slope_;
};

// Parameters: a slope for each channel.
template <typename Real>
class PRelu final : public Step<Real> {
 public:
  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;
};

template <typename Real>
class Sigmoid final : public Step<Real> {
 public:
  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;
};

}  // namespace upscaled::train
