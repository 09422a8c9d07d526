// The interface of the ways to compute a convolution of stride 1 and its derivatives, and the list
// of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/train/kernels/sums_gradient.h"
#include "engine/train/tensor.h"

namespace upscaled::train {

// Parameters of one: weights [tap][out][in], bias [out].
struct ConvShape {
  int in, out;
  int kernel_px, padding_px;

  int taps() const { return kernel_px * kernel_px; }
  size_t weights() const { return size_t{1} * taps() * in * out; }
  Size OutputSize(Size source) const {
    const int cut = kernel_px - 1 - 2 * padding_px;
    return {source.width - cut, source.height - cut};
  }
};

// The last steps of each sum.
template <typename Real>
struct ConvEpilogue {
  const Real* bias = nullptr;  // [PaddedChannels(out)]
  Real slope = 1;              // of negative sums
  bool add = false;            // to what is there
};

// A line's results from its sums, `sums_stride` values apart from pixel to pixel.
template <typename Real>
void FinishLine(const Real* sums, int sums_stride, const ConvEpilogue<Real>& epilogue, int line,
                Tensor<Real>& dst);

// The loss's derivative by the sums of one image, with zeros around: kBorderPx on all sides, and
// behind that on the right and below as many as blocks of pixels may reach.
template <typename Real>
class SumsGradient {
 public:
  static constexpr int kBorderPx = 2, kReachPx = 8;

  // For images of this many pixels and channels.
  SumsGradient(Size size, int channels, cpu::Isa isa);
  // For an image: `d_dst`, times the slope where `dst` is not above 0. Adds their sums over all
  // pixels to `d_bias`.
  void Set(const Tensor<Real>& dst, const Tensor<Real>& d_dst, int image, Real slope, Real* d_bias);

  Size size() const { return size_; }
  size_t pixel_stride() const { return sums_.size(); }
  size_t line_stride() const { return pixel_stride() * (size_.width + 2 * kBorderPx + kReachPx); }
  // Channel 0; coordinates may lie in the border.
  const Real* At(int y, int x) const { return values_.data() + Offset(y, x); }

 private:
  size_t Offset(int y, int x) const {
    return (y + kBorderPx) * line_stride() + (x + kBorderPx) * pixel_stride();
  }

  const Size size_;
  const SumsGradientFunction<Real> set_line_;
  LineVector<Real> sums_;  // of an image, over all pixels
  LineVector<Real> values_;
};

// Used by one thread at a time; holds its buffers between calls.
template <typename Real>
class ConvKernel {
 public:
  virtual ~ConvKernel() = default;

  // For the next calls.
  virtual void SetWeights(const Real* params) = 0;
  virtual void Forward(const Tensor<Real>& src, int image, const ConvEpilogue<Real>& epilogue,
                       Tensor<Real>& dst) = 0;
  virtual void GetSourceGradient(const SumsGradient<Real>& d_sums, int image, bool add,
                                 Tensor<Real>& d_src) = 0;
  // Summed up over images until they are moved, added to the parameters'.
  virtual void AddWeightGradient(const Tensor<Real>& src, int image,
                                 const SumsGradient<Real>& d_sums) = 0;
  virtual void MoveWeightGradient(Real* d_params) = 0;
};

template <typename Real>
struct ConvCandidate {
  std::string_view name;
  bool (*supports)(const ConvShape& shape);
  std::unique_ptr<ConvKernel<Real>> (*make)(const ConvShape& shape, cpu::Isa isa);
};

// Best first; the last supports every shape of 1x1 to 3x3 with a padding of less than the kernel.
template <typename Real>
std::span<const ConvCandidate<Real>> ConvKernels();

template <typename Real>
using ConvKernelMaker = std::function<std::unique_ptr<ConvKernel<Real>>(const ConvShape& shape)>;
// The best of ConvKernels(), for this CPU.
template <typename Real>
std::unique_ptr<ConvKernel<Real>> MakeBestConvKernel(const ConvShape& shape);

// Where convolutions of stride 1 are computed: the CPU unless it says otherwise.
struct ConvDevice {
  std::string name = "cpu";
  ConvKernelMaker<float> of_floats = &MakeBestConvKernel<float>;
  ConvKernelMaker<double> of_doubles = &MakeBestConvKernel<double>;
  // The first error of any of its kernels. Their results are wrong from then on.
  std::function<absl::Status()> status = [] { return absl::OkStatus(); };
};
template <typename Real>
const ConvKernelMaker<Real>& KernelMakerOf(const ConvDevice& device);

}  // namespace upscaled::train
