#include "engine/train/conv.h"

#include <algorithm>

namespace upscaled::train {
namespace {

ConvShape ShapeOf(const Layer& layer) {
  return {layer.in_channels, layer.out_channels, layer.kernel_px, layer.padding_px};
}

template <typename Real>
Real SlopeOf(const Layer& layer) {
  if (!ConvActivates(layer) || layer.activation == Activation::kNone) return 1;
  return layer.activation == Activation::kRelu ? Real{0} : Real{layer.slope[0]};
}

}  // namespace

bool ConvSupports(const Layer& layer) {
  return layer.op == Op::kConv && layer.stride_px == 1 && layer.kernel_px <= 3 &&
         layer.padding_px <= std::min(1, layer.kernel_px - 1);
}

bool ConvActivates(const Layer& layer) {
  return layer.activation == Activation::kNone || layer.activation == Activation::kRelu ||
         (layer.activation == Activation::kLeakyRelu && layer.slope[0] > 0);
}

template <typename Real>
Conv<Real>::Conv(const Layer& layer, const ConvKernelMaker<Real>& make_kernel, cpu::Isa isa)
    : shape_(ShapeOf(layer)),
      slope_(SlopeOf<Real>(layer)),
      isa_(isa),
      kernel_(make_kernel(shape_)),
      bias_(PaddedChannels(shape_.out)) {}

template <typename Real>
void Conv<Real>::Begin(const Real* params) {
  kernel_->SetWeights(params);
  std::copy_n(params + shape_.weights(), shape_.out, bias_.data());
}

template <typename Real>
void Conv<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  for (int image = 0; image < dst.grid().images; ++image) {
    kernel_->Forward(*src[0], image, {.bias = bias_.data(), .slope = slope_}, dst);
  }
}

template <typename Real>
void Conv<Real>::Backward(const Real* /*params*/, Sources src, const Tensor<Real>& dst,
                          const Tensor<Real>& d_dst, SourceGradients d_src, Real* d_params) {
  if (!d_sums_ || d_sums_->size() != dst.grid().size) {
    d_sums_.emplace(dst.grid().size, shape_.out, isa_);
  }
  for (int image = 0; image < dst.grid().images; ++image) {
    d_sums_->Set(dst, d_dst, image, slope_, d_params + shape_.weights());
    kernel_->AddWeightGradient(*src[0], image, *d_sums_);
    if (d_src[0].tensor == nullptr) continue;
    kernel_->GetSourceGradient(*d_sums_, image, d_src[0].add, *d_src[0].tensor);
  }
}

template class Conv<float>;
template class Conv<double>;

}  // namespace upscaled::train
