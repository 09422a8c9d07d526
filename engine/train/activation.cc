#include "engine/train/activation.h"

#include <algorithm>
#include <cmath>

namespace upscaled::train {

// The loops are written to become vector instructions: without branches, and without arithmetic of
// only one of two cases.

bool ActivationSupports(const Layer& layer) {
  switch (layer.activation) {
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kLeakyRelu:
    case Activation::kPRelu:
    case Activation::kSigmoid:
      return true;
    default:
      return false;
  }
}

template <typename Real>
void LeakyRelu<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  const Real* x = src[0]->values().data();
  Real* y = dst.values().data();
  for (size_t i = 0; i < dst.values().size(); ++i) {
    y[i] = std::max(x[i], Real{0}) + slope_ * std::min(x[i], Real{0});
  }
}

template <typename Real>
void LeakyRelu<Real>::Backward(const Real* /*params*/, Sources src, const Tensor<Real>& /*dst*/,
                               const Tensor<Real>& d_dst, SourceGradients d_src,
                               Real* /*d_params*/) {
  if (d_src[0].tensor == nullptr) return;
  const Real* x = src[0]->values().data();
  const Real* d = d_dst.values().data();
  Real* to = d_src[0].Cleared().values().data();
  for (size_t i = 0; i < d_dst.values().size(); ++i) to[i] += d[i] * (x[i] > 0 ? Real{1} : slope_);
}

template <typename Real>
void PRelu<Real>::Forward(const Real* params, Sources src, Tensor<Real>& dst) {
  const Real* x = src[0]->values().data();
  Real* y = dst.values().data();
  for (size_t i = 0; i < dst.grid().places(); ++i, x += dst.stride(), y += dst.stride()) {
    for (int c = 0; c < dst.channels(); ++c) {
      y[c] = std::max(x[c], Real{0}) + params[c] * std::min(x[c], Real{0});
    }
  }
}

template <typename Real>
void PRelu<Real>::Backward(const Real* params, Sources src, const Tensor<Real>& /*dst*/,
                           const Tensor<Real>& d_dst, SourceGradients d_src, Real* d_params) {
  const int stride = d_dst.stride();
  const Real* x = src[0]->values().data();
  const Real* d = d_dst.values().data();
  Real* to = d_src[0].tensor == nullptr ? nullptr : d_src[0].Cleared().values().data();
  for (size_t i = 0; i < d_dst.grid().places(); ++i, x += stride, d += stride) {
    for (int c = 0; c < d_dst.channels(); ++c) d_params[c] += std::min(x[c], Real{0}) * d[c];
    if (to == nullptr) continue;
    for (int c = 0; c < d_dst.channels(); ++c) to[c] += d[c] * (x[c] > 0 ? Real{1} : params[c]);
    to += stride;
  }
}

template <typename Real>
void Sigmoid<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  const Grid& grid = dst.grid();
  for (int image = 0; image < grid.images; ++image) {
    for (int row = 0; row < grid.size.height; ++row) {
      const Real* x = src[0]->line(grid.Line(image, row));
      Real* y = dst.line(grid.Line(image, row));
      for (int i = 0; i < grid.size.width; ++i, x += dst.stride(), y += dst.stride()) {
        for (int c = 0; c < dst.channels(); ++c) y[c] = 1 / (1 + std::exp(-x[c]));
      }
    }
  }
}

template <typename Real>
void Sigmoid<Real>::Backward(const Real* /*params*/, Sources /*src*/, const Tensor<Real>& dst,
                             const Tensor<Real>& d_dst, SourceGradients d_src, Real* /*d_params*/) {
  if (d_src[0].tensor == nullptr) return;
  const Real* y = dst.values().data();
  const Real* d = d_dst.values().data();
  Real* to = d_src[0].Cleared().values().data();
  for (size_t i = 0; i < d_dst.values().size(); ++i) to[i] += d[i] * y[i] * (1 - y[i]);
}

template class LeakyRelu<float>;
template class LeakyRelu<double>;
template class PRelu<float>;
template class PRelu<double>;
template class Sigmoid<float>;
template class Sigmoid<double>;

}  // namespace upscaled::train
