#include "engine/train/rearranging.h"

namespace upscaled::train {

template <typename Real>
void Add<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  const Real* a = src[0]->row(0);
  const Real* b = src[1]->row(0);
  Real* sum = dst.row(0);
  for (size_t i = 0; i < dst.values().size(); ++i) sum[i] = a[i] + b[i];
}

template <typename Real>
void Add<Real>::Backward(const Real* /*params*/, Sources /*src*/, const Tensor<Real>& d_dst,
                         SourceGradients d_src, Real* /*d_params*/) {
  for (Tensor<Real>* gradient : d_src) {
    if (gradient == nullptr) continue;
    for (size_t i = 0; i < d_dst.values().size(); ++i) gradient->row(0)[i] += d_dst.row(0)[i];
  }
}

template <typename Real>
Size Rearrange<Real>::OutputSize(Size source) const {
  return {(source.width - 2 * how_.crop_px) * how_.factor,
          (source.height - 2 * how_.crop_px) * how_.factor};
}

template <typename Real>
template <typename Run>
void Rearrange<Real>::ForEachRun(const Grid& src, const Grid& dst, int channels, Run run) const {
  const int f = how_.factor;
  for (int channel = 0; channel < channels; ++channel) {
    for (int image = 0; image < dst.images; ++image) {
      for (int y = 0; y < dst.size.height; ++y) {
        for (int dx = 0; dx < f; ++dx) {
          const int from = how_.shuffles ? (channel * f + y % f) * f + dx : channel;
          run(from, src.Line(image, y / f + how_.crop_px), channel, dst.Line(image, y), dx);
        }
      }
    }
  }
}

template <typename Real>
void Rearrange<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  ForEachRun(src[0]->grid(), dst.grid(), dst.channels(),
             [&](int src_channel, int src_line, int channel, int line, int dx) {
               const Real* from = src[0]->line(src_channel, src_line) + how_.crop_px;
               Real* to = dst.line(channel, line);
               for (int x = dx; x < dst.grid().size.width; x += how_.factor) to[x] = *from++;
             });
}

template <typename Real>
void Rearrange<Real>::Backward(const Real* /*params*/, Sources src, const Tensor<Real>& d_dst,
                               SourceGradients d_src, Real* /*d_params*/) {
  if (d_src[0] == nullptr) return;
  ForEachRun(src[0]->grid(), d_dst.grid(), d_dst.channels(),
             [&](int src_channel, int src_line, int channel, int line, int dx) {
               const Real* from = d_dst.line(channel, line);
               Real* to = d_src[0]->line(src_channel, src_line) + how_.crop_px;
               for (int x = dx; x < d_dst.grid().size.width; x += how_.factor) *to++ += from[x];
             });
}

template class Add<float>;
template class Add<double>;
template class Rearrange<float>;
template class Rearrange<double>;

}  // namespace upscaled::train
