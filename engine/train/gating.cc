#include "engine/train/gating.h"

#include <algorithm>

namespace upscaled::train {
namespace {

// The pixel of `tensor`, of one or of all pixels an image, for (x, y).
template <typename AnyTensor>
auto* PixelOf(AnyTensor& tensor, int image, int y, int x) {
  const bool is_one = tensor.grid().size == Size{1, 1};
  return tensor.line(tensor.grid().Line(image, is_one ? 0 : y)) +
         (is_one ? 0 : x) * tensor.stride();
}

// Calls `visit(image, y, x)` for all pixels.
template <typename Visit>
void ForEachPixel(const Grid& grid, Visit visit) {
  for (int image = 0; image < grid.images; ++image) {
    for (int y = 0; y < grid.size.height; ++y) {
      for (int x = 0; x < grid.size.width; ++x) visit(image, y, x);
    }
  }
}

}  // namespace

template <typename Real>
void GlobalAveragePool<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  const Tensor<Real>& from = *src[0];
  const Real part = Real{1} / static_cast<Real>(from.grid().size.Area());
  for (int image = 0; image < dst.grid().images; ++image) {
    std::fill_n(PixelOf(dst, image, 0, 0), dst.channels(), Real{0});
  }
  ForEachPixel(from.grid(), [&](int image, int y, int x) {
    const Real* pixel = PixelOf(from, image, y, x);
    Real* mean = PixelOf(dst, image, y, x);
    for (int c = 0; c < dst.channels(); ++c) mean[c] += part * pixel[c];
  });
}

template <typename Real>
void GlobalAveragePool<Real>::Backward(const Real* /*params*/, Sources src,
                                       const Tensor<Real>& /*dst*/, const Tensor<Real>& d_dst,
                                       SourceGradients d_src, Real* /*d_params*/) {
  if (d_src[0].tensor == nullptr) return;
  const Real part = Real{1} / static_cast<Real>(src[0]->grid().size.Area());
  Tensor<Real>& to = d_src[0].Cleared();
  ForEachPixel(to.grid(), [&](int image, int y, int x) {
    Real* pixel = PixelOf(to, image, y, x);
    const Real* mean = PixelOf(d_dst, image, y, x);
    for (int c = 0; c < to.channels(); ++c) pixel[c] += part * mean[c];
  });
}

template <typename Real>
void Multiply<Real>::Forward(const Real* /*params*/, Sources src, Tensor<Real>& dst) {
  ForEachPixel(dst.grid(), [&](int image, int y, int x) {
    const Real* a = PixelOf(*src[0], image, y, x);
    const Real* b = PixelOf(*src[1], image, y, x);
    Real* product = PixelOf(dst, image, y, x);
    for (int c = 0; c < dst.channels(); ++c) product[c] = a[c] * b[c];
  });
}

template <typename Real>
void Multiply<Real>::Backward(const Real* /*params*/, Sources src, const Tensor<Real>& /*dst*/,
                              const Tensor<Real>& d_dst, SourceGradients d_src,
                              Real* /*d_params*/) {
  for (int i = 0; i < 2; ++i) {
    if (d_src[i].tensor == nullptr) continue;
    const Tensor<Real>& other = *src[1 - i];
    Tensor<Real>& to = d_src[i].Cleared();
    ForEachPixel(d_dst.grid(), [&](int image, int y, int x) {
      const Real* d = PixelOf(d_dst, image, y, x);
      const Real* factor = PixelOf(other, image, y, x);
      Real* sum = PixelOf(to, image, y, x);
      for (int c = 0; c < d_dst.channels(); ++c) sum[c] += d[c] * factor[c];
    });
  }
}

template class GlobalAveragePool<float>;
template class GlobalAveragePool<double>;
template class Multiply<float>;
template class Multiply<double>;

}  // namespace upscaled::train
