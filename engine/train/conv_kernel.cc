#include "engine/train/conv_kernel.h"

#include <algorithm>

#include "engine/train/direct_conv.h"
#include "engine/train/winograd_conv.h"

namespace upscaled::train {

template <typename Real>
SumsGradient<Real>::SumsGradient(Size size, int channels, cpu::Isa isa)
    : size_(size),
      set_line_(SumsGradientFor<Real>(isa, channels)),
      sums_(PaddedChannels(channels)),
      values_((size.height + 2 * kBorderPx + kReachPx) * line_stride()) {}

template <typename Real>
void SumsGradient<Real>::Set(const Tensor<Real>& dst, const Tensor<Real>& d_dst, int image,
                             Real slope, Real* d_bias) {
  std::fill(sums_.begin(), sums_.end(), Real{0});
  for (int y = 0; y < size_.height; ++y) {
    set_line_({.pixels = size_.width,
               .stride = d_dst.stride(),
               .padded = static_cast<int>(pixel_stride()),
               .result = dst.line(dst.grid().Line(image, y)),
               .d_result = d_dst.line(d_dst.grid().Line(image, y)),
               .slope = slope,
               .d_sums = values_.data() + Offset(y, 0),
               .total = sums_.data()});
  }
  for (int c = 0; c < d_dst.channels(); ++c) d_bias[c] += sums_[c];
}

template <typename Real>
void FinishLine(const Real* sums, int sums_stride, const ConvEpilogue<Real>& epilogue, int line,
                Tensor<Real>& dst) {
  Real* to = dst.line(line);
  for (int x = 0; x < dst.grid().size.width; ++x, sums += sums_stride, to += dst.stride()) {
    for (int c = 0; c < dst.stride(); ++c) {
      const Real value = sums[c] + (epilogue.bias == nullptr ? Real{0} : epilogue.bias[c]);
      const Real result = std::max(value, Real{0}) + epilogue.slope * std::min(value, Real{0});
      to[c] = epilogue.add ? to[c] + result : result;
    }
  }
}

template <>
std::span<const ConvCandidate<float>> ConvKernels() {
  // The transformed weights of F(6x6), a thread's own at each step, fill the second-level cache.
  static constexpr ConvCandidate<float> kKernels[] = {
      {"winograd_f4", &WinogradConvSupports, &MakeWinogradF4Conv},
      {"winograd_f6", &WinogradConvSupports, &MakeWinogradF6Conv},
      {"direct", [](const ConvShape&) { return true; }, &MakeDirectConv<float>}};
  return kKernels;
}

template <>
std::span<const ConvCandidate<double>> ConvKernels() {
  static constexpr ConvCandidate<double> kKernels[] = {
      {"direct", [](const ConvShape&) { return true; }, &MakeDirectConv<double>}};
  return kKernels;
}

template <typename Real>
std::unique_ptr<ConvKernel<Real>> MakeBestConvKernel(const ConvShape& shape) {
  const auto kernels = ConvKernels<Real>();
  const auto best = std::find_if(kernels.begin(), kernels.end(),
                                 [&](const auto& kernel) { return kernel.supports(shape); });
  return best->make(shape, cpu::ListIsas().front());
}

template <>
const ConvKernelMaker<float>& KernelMakerOf(const ConvDevice& device) {
  return device.of_floats;
}
template <>
const ConvKernelMaker<double>& KernelMakerOf(const ConvDevice& device) {
  return device.of_doubles;
}

template void FinishLine(const float*, int, const ConvEpilogue<float>&, int, Tensor<float>&);
template void FinishLine(const double*, int, const ConvEpilogue<double>&, int, Tensor<double>&);
template std::unique_ptr<ConvKernel<float>> MakeBestConvKernel(const ConvShape&);
template std::unique_ptr<ConvKernel<double>> MakeBestConvKernel(const ConvShape&);
template class SumsGradient<float>;
template class SumsGradient<double>;

}  // namespace upscaled::train
