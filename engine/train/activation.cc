#include "engine/train/activation.h"

#include <algorithm>

namespace upscaled::train {
namespace {

// Both loops are written so that they become vector instructions: without branches, and without
// arithmetic that one of two cases alone does.
template <typename Real>
void ActivateRow(const Real* src, size_t values, Real slope, Real* dst) {
  for (size_t i = 0; i < values; ++i) {
    dst[i] = std::max(src[i], Real{0}) + slope * std::min(src[i], Real{0});
  }
}

template <typename Real>
void AddRowGradient(const Real* src, const Real* d_dst, size_t values, Real slope, Real* d_src) {
  for (size_t i = 0; i < values; ++i) {
    const Real factor = src[i] > 0 ? Real{1} : slope;
    d_src[i] += factor * d_dst[i];
  }
}

}  // namespace

bool ActivationSupports(const Layer& layer) {
  return layer.activation == Activation::kNone || layer.activation == Activation::kRelu ||
         layer.activation == Activation::kLeakyRelu || layer.activation == Activation::kPRelu;
}

template <typename Real>
void LeakyRelu<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  ActivateRow(src[0]->row(0), dst.values().size(), slope_, dst.row(0));
}

template <typename Real>
void LeakyRelu<Real>::Backward(const Real* /*params*/, Sources src, const Tensor<Real>& d_dst,
                               SourceGradients d_src, Real* /*d_params*/) {
  if (d_src[0] == nullptr) return;
  AddRowGradient(src[0]->row(0), d_dst.row(0), d_dst.values().size(), slope_, d_src[0]->row(0));
}

template <typename Real>
void PRelu<Real>::Forward(const Real* params, Sources src, Tensor<Real>& dst) {
  for (int c = 0; c < dst.channels(); ++c) {
    ActivateRow(src[0]->row(c), dst.row_values(), params[c], dst.row(c));
  }
}

template <typename Real>
void PRelu<Real>::Backward(const Real* params, Sources src, const Tensor<Real>& d_dst,
                           SourceGradients d_src, Real* d_params) {
  for (int c = 0; c < d_dst.channels(); ++c) {
    const Real* x = src[0]->row(c);
    const Real* d = d_dst.row(c);
    Real sum = 0;
    for (size_t i = 0; i < d_dst.row_values(); ++i) sum += x[i] > 0 ? Real{0} : x[i] * d[i];
    d_params[c] += sum;
    if (d_src[0] != nullptr) {
      AddRowGradient(x, d, d_dst.row_values(), params[c], d_src[0]->row(c));
    }
  }
}

template class LeakyRelu<float>;
template class LeakyRelu<double>;
template class PRelu<float>;
template class PRelu<double>;

}  // namespace upscaled::train
