// Convolution of stride 1, with the activation behind it if the result tells its sums' signs.
// Parameters: weights [tap][out][in], bias [out].
#pragma once

#include <memory>
#include <optional>

#include "engine/model/network.h"
#include "engine/train/conv_kernel.h"
#include "engine/train/step.h"

namespace upscaled::train {

// 1x1 to 3x3, with no padding or, 2x2 and 3x3, one pixel of zeros.
bool ConvSupports(const Layer& layer);
// Whether the step does the layer's activation as well: none, ReLU or a sign-keeping LeakyReLU.
bool ConvActivates(const Layer& layer);

template <typename Real>
class Conv final : public Step<Real> {
 public:
  // ConvSupports(layer).
  explicit Conv(const Layer& layer,
                const ConvKernelMaker<Real>& make_kernel = &MakeBestConvKernel<Real>,
                cpu::Isa isa = cpu::ListIsas().front());

  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  Size OutputSize(Size source) const override { return shape_.OutputSize(source); }
  void Begin(const Real* params) override;
  void End(Real* d_params) override { kernel_->MoveWeightGradient(d_params); }
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;

 private:
  const ConvShape shape_;
  const Real slope_;
  const cpu::Isa isa_;
  const std::unique_ptr<ConvKernel<Real>> kernel_;
  LineVector<Real> bias_;  // padded
  std::optional<SumsGradient<Real>> d_sums_;
};

}  // namespace upscaled::train
