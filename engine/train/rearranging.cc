#include "engine/train/rearranging.h"

namespace upscaled::train {

template <typename Real>
void Add<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  const Real* a = src[0]->values().data();
  const Real* b = src[1]->values().data();
  Real* sum = dst.values().data();
  for (size_t i = 0; i < dst.values().size(); ++i) sum[i] = a[i] + b[i];
}

template <typename Real>
void Add<Real>::Backward(const Real* /*params*/, Sources /*src*/, const Tensor<Real>& /*dst*/,
                         const Tensor<Real>& d_dst, SourceGradients d_src, Real* /*d_params*/) {
  const Real* d = d_dst.values().data();
  for (const SourceGradient<Real>& gradient : d_src) {
    if (gradient.tensor == nullptr) continue;
    Real* to = gradient.Cleared().values().data();
    for (size_t i = 0; i < d_dst.values().size(); ++i) to[i] += d[i];
  }
}

template <typename Real>
Size Rearrange<Real>::OutputSize(Size source) const {
  return {(source.width - 2 * how_.crop_px) * how_.factor,
          (source.height - 2 * how_.crop_px) * how_.factor};
}

template <typename Real>
template <typename Source, typename Result, typename Visit>
void Rearrange<Real>::ForEachValue(Source& src, Result& dst, Visit visit) const {
  const int f = how_.factor, channel_step = how_.shuffles ? f * f : 1;
  for (int image = 0; image < dst.grid().images; ++image) {
    for (int y = 0; y < dst.grid().size.height; ++y) {
      auto* to = dst.line(dst.grid().Line(image, y));
      for (int x = 0; x < dst.grid().size.width; ++x, to += dst.stride()) {
        auto* from = src.line(src.grid().Line(image, y / f + how_.crop_px)) +
                     (x / f + how_.crop_px) * src.stride() +
                     (how_.shuffles ? y % f * f + x % f : 0);
        for (int c = 0; c < dst.channels(); ++c) visit(from[c * channel_step], to[c]);
      }
    }
  }
}

template <typename Real>
void Rearrange<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  ForEachValue(*src[0], dst, [](Real from, Real& to) { to = from; });
}

template <typename Real>
void Rearrange<Real>::Backward(const Real* /*params*/, Sources /*src*/, const Tensor<Real>& /*dst*/,
                               const Tensor<Real>& d_dst, SourceGradients d_src,
                               Real* /*d_params*/) {
  if (d_src[0].tensor == nullptr) return;
  ForEachValue(d_src[0].Cleared(), d_dst, [](Real& to, Real from) { to += from; });
}

template class Add<float>;
template class Add<double>;
template class Rearrange<float>;
template class Rearrange<double>;

}  // namespace upscaled::train
